--- The model families, by the model_type of config.json.

-- A new family is one line here and one file.
return {
   bert = "ftpipe.model.bert",
   gpt2 = "ftpipe.model.gpt2",
   mt5 = "ftpipe.model.mt5",
   t5 = "ftpipe.model.t5",
}
