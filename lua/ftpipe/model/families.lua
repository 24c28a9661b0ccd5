--- The model families, by the model_type of config.json.

-- A new family is one line here and one file.
return {
   t5 = "ftpipe.model.t5",
}
