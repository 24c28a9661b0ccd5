--- Faults in src/ops; see tools/mutate.lua.
local OPS = "c/ops c/ops_simd c/ops_formulas c/ops_grad"
local T5 = "c/ops c/ops_formulas spec/model_t5"
local BIAS = "src/ops/relative_bias.c"
local DROPOUT = "src/ops/op_dropout.c"
return {
   { BIAS, "int64_t exact = buckets / 2;", "int64_t exact = buckets / 2 - 1;",
      T5, "wide buckets begin a distance early" },
   { BIAS, "log((double)max_distance / (double)exact)",
      "log((double)(max_distance + 1) / (double)exact)", T5,
      "wide buckets are wider" },
   { BIAS, "steps + 1e-9", "steps",
      T5, "buckets begin late by rounding" },
   { BIAS, "if (key_minus_query > 0) base = buckets;", "if (key_minus_query >= 0) base = buckets;",
      T5, "a token's own position counts as behind it" },
   { DROPOUT, "(uint32_t)(key->seed >> 32) ^ key->step", "(uint32_t)(key->seed >> 32)",
      "spec/closed_forms", "draws are the same in every step" },
   { DROPOUT, "(uint32_t)key->seed ^ key->node", "key->node", "spec/closed_forms",
      "draws do not depend on the seed" },
   { DROPOUT, "^ key->node * 0x9E3779B9u", "", "c/ops_formulas spec/closed_forms",
      "all nodes draw alike" },
   { DROPOUT, ">= threshold;", "> threshold;",
      OPS, "a draw too many is dropped" },
   { DROPOUT, "65536.0f / (65536.0f - (float)threshold)",
      "65536.0f / (65537.0f - (float)threshold)",
      OPS, "what is kept is scaled too little" },
   { "src/ops/op_cross_entropy.c", "(labels[i] < 0 || labels[i] >= V))",
      "(labels[i] < 0 || labels[i] > V))", OPS,
      "a label may be one past the vocabulary" },
   { "src/ops/op_cross_entropy.c", "memset(dx, 0, (size_t)j->V * sizeof *dx);", "",
      OPS, "logits of ignored labels have any gradient" },
   { "src/ops/op_cross_entropy.c", ".scale = ft_in(call, 0)[0] * ft_in(call, 3)[0]};",
      ".scale = ft_in(call, 3)[0]};", OPS,
      "the gradient does not depend on that of the loss" },
   { "src/ops/op_norm.c",
      [[for (int i = 0; i < 1 + n_params(centred); i++)
        if]]
         .. " (site->wanted[i]) site->din[i] = dx + i;",
      [[for (int i = 0; i < 2; i++)
        if (site->wanted[i]) site->din[i] = dx + i;]],
      OPS, "the bias of a layer norm has no gradient" },
   { "src/ops/op_norm.c", "total + i * j.D, 1, j.D, ft_adds(call, 1 + i));",
      "total + i * j.D, 1, j.D, false);",
      "c/ops c/ops_simd c/ops_grad c/program c/engine",
      "gradients of norms are not added up over micro-batches" },
   { "src/ops/attention_grad_kernel.c", "float sum = 0.0f;",
      "float sum = ft_adds(job->call, 3) ? 1e-7f : 0.0f;", "c/ops c/ops_simd",
      "what attention adds to a gradient is not what it gives" },
   { "src/ops/op_argmax.c",
      [[const float *x = ft_in(call, 0) + r * V;
        int64_t best = 0;
       ]]
         .. [[ for (int64_t i = 1; i < V; i++)
            if (x[i] > x[best]) best = i;]],
      [[const float *x = ft_in(call, 0) + r * V;
        int64_t best = 0;
       ]]
         .. [[ for (int64_t i = 1; i < V; i++)
            if (x[i] >= x[best]) best = i;]],
      OPS, "of equal logits the last is the largest" },
   { "src/ops/op_cache_append.c", "if (position < 0 || position + t > T)",
      "if (position < 0 || position + t > T + 1)", T5,
      "a cache takes a position too many" },
   { "src/ops/op_embedding.c", "if (ids[i] < 0 || ids[i] >= limit)",
      "if (ids[i] < 0 || ids[i] > limit)", OPS,
      "an id may be one past the table" },
   { "src/ops/op_embedding.c", "for (int64_t i = 0; call->rows && i < j.n; i++)",
      "for (int64_t i = 1; call->rows && i < j.n; i++)", "c/ops c/ops_simd spec/ties",
      "the row of the first id is not noted, and not cleared" },
   { "src/ops/op_embedding.c", "if (!j->rows || j->rows[i])", "if (!j->rows || !j->rows[i])",
      "c/ops c/ops_simd spec/ties", "rows that hold something are not cleared" },
   { "src/ops/op_reduce.c", "(float)(mean ? sum / (double)j.at.n : sum);", "(float)sum;",
      OPS, "the mean of everything is its sum" },
   { "src/ops/op_reduce.c", "j.factor = call->attrs[MEAN] != 0.0 ? 1.0f / (float)j.at.n : 1.0f;",
      "j.factor = 1.0f;", OPS, "the gradient of a mean is that of a sum" },
   { "src/ops/op_unary.c",
      "void (*work)(void *, int) = ft_adds(call, 0) ? piece_of_sum : piece_of_scale;",
      "void (*work)(void *, int) = piece_of_scale; (void)piece_of_sum;",
      "c/ops c/ops_simd c/program c/engine", "copied gradients replace each other" },
   { "src/ops/op_softmax.c",
      "site->din[0] = ft_add2(b, &ft_op_softmax_grad, site->dout[0], site->out[0], NULL);",
      "site->din[0] = ft_add2(b, &ft_op_softmax_grad, site->dout[0], site->in[0], NULL);",
      OPS, "the gradient of a softmax reads its input" },
}
