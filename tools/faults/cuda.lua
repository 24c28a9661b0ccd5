--- Faults of what runs on cards, which the emulation sees; see tools/mutate.lua.
return {
   { "kernels/optimizers.cu", "old * x.momentum + (x.g[i] * x.grad_scale + x.p[i] * x.decay);",
      "old * x.momentum + x.g[i] * x.grad_scale + x.p[i] * x.decay;", "c/cuda_steps",
      "a card adds SGD's terms in another order than the CPU" },
   { "kernels/optimizers.cu", "*v * s.beta2 + g * g * s.rest2;",
      "*v * s.beta2 + s.rest2 * g * g;", "c/cuda_steps check/host_updates",
      "an update in host memory has other bits than one on the card" },
   { "cmake/FtKernels.cmake", "ft_simd(optim OFF)", "ft_simd(optim ON)", "c/optim_simd",
      "bits of an update depend on the instruction set" },
   { "src/state/clock.c", "int64_t least = n ? e[-1].end_ns : 0;",
      "int64_t least = n ? e[-1].end_ns : e->start_ns;", "spec/card_ahead",
      "a run ends where a card's clock is behind the host's" },
}
