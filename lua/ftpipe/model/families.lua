--- The model families, by the model_type of config.json.

-- A new family is one line here and one file.
return {
   bert = "ftpipe.model.bert",
   gpt2 = "ftpipe.model.gpt2",
   t5 = "ftpipe.model.t5",
}
