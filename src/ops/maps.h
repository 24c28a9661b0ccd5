/* ops/maps.h - rows that are a function of every number, as two lists.
 *
 * A new one is a line here, its function in f64 in op_unary.c, vf_NAME, its vector form, in
 * simd/math.c (or simd/vec_math.h), and for cards a case FT_CUDA_NAME in kernels/elements.cu. All
 * else is made from the lists: the numbers of the kernels, the row with kernel, reference, cost and
 * gradient, and its place in the table. */
#ifndef FT_OPS_MAPS_H
#define FT_OPS_MAPS_H

/* y = f(x): row, its number FT_MAP_..., f in f64, operations for a number, what its gradient is
 * made of (op_unary.c) and by which row, doc */
#define FT_MAP1_LIST(X)                                                                            \
    X(relu, RELU, relu, 1, from_y, relu_grad, "y = max(x, 0)")                                     \
    X(relu6, RELU6, relu6, 2, from_y, relu6_grad, "y = min(max(x, 0), 6)")                         \
    X(relu2, RELU2, relu2, 2, from_x, relu2_grad, "y = max(x, 0)^2")                               \
    X(leaky_relu, LEAKY_RELU, leaky_relu, 2, from_y, leaky_relu_grad, "y = max(x, 0.01 x)")        \
    X(gelu, GELU, gelu, 25, from_x, gelu_grad,                                                     \
      "y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), \"gelu_new\"")                           \
    X(gelu_erf, GELU_ERF, gelu_erf, 25, from_x, gelu_erf_grad, "y = x/2 (1 + erf(x / sqrt(2)))")   \
    X(gelu_10, GELU_10, gelu_10, 26, from_x, gelu_10_grad, "y = min(gelu_erf(x), 10)")             \
    X(sigmoid, SIGMOID, sigmoid, 20, from_y, sigmoid_grad, "y = 1 / (1 + e^-x)")                   \
    X(silu, SILU, silu, 21, from_x, silu_grad, "y = x / (1 + e^-x), \"swish\"")                    \
    X(quick_gelu, QUICK_GELU, quick_gelu, 22, from_x, quick_gelu_grad,                             \
      "y = x / (1 + e^(-1.702 x))")                                                                \
    X(mish, MISH, mish, 25, from_x, mish_grad, "y = x tanh(log(1 + e^x))")                         \
    X(tanh, TANH, tanh, 25, from_y, tanh_grad, "y = tanh(x)")                                      \
    X(exp, EXP, exp, 25, from_y, mul, "y = e^x")                                                   \
    X(log, LOG, log, 25, from_x, div, "y = natural logarithm of x")                                \
    X(sqrt, SQRT, sqrt, 1, from_y, sqrt_grad, "y = square root of x")                              \
    X(neg, NEG, negative, 1, from_dy, neg, "y = -x")

/* dx = g(dy, x or y), gradients of those above: row, number, g in f64, operations, doc */
#define FT_MAP2_LIST(X)                                                                            \
    X(relu_grad, RELU_GRAD, relu_grad, 2, "dx = dy where y > 0, else 0; (dy, y)")                  \
    X(relu6_grad, RELU6_GRAD, relu6_grad, 3, "dx = dy where 0 < y < 6, else 0; (dy, y)")           \
    X(relu2_grad, RELU2_GRAD, relu2_grad, 3, "dx = 2 dy max(x, 0); (dy, x)")                       \
    X(leaky_relu_grad, LEAKY_RELU_GRAD, leaky_relu_grad, 2,                                        \
      "dx = dy where y > 0, else 0.01 dy; (dy, y)")                                                \
    X(gelu_grad, GELU_GRAD, gelu_grad, 35, "gradient of gelu; (dy, x)")                            \
    X(gelu_erf_grad, GELU_ERF_GRAD, gelu_erf_grad, 35, "gradient of gelu_erf; (dy, x)")            \
    X(gelu_10_grad, GELU_10_GRAD, gelu_10_grad, 36, "gradient of gelu_10; (dy, x)")                \
    X(sigmoid_grad, SIGMOID_GRAD, sigmoid_grad, 3, "dx = dy y (1 - y); (dy, y)")                   \
    X(silu_grad, SILU_GRAD, silu_grad, 25, "gradient of silu; (dy, x)")                            \
    X(quick_gelu_grad, QUICK_GELU_GRAD, quick_gelu_grad, 26, "gradient of quick_gelu; (dy, x)")    \
    X(mish_grad, MISH_GRAD, mish_grad, 35, "gradient of mish; (dy, x)")                            \
    X(tanh_grad, TANH_GRAD, tanh_grad, 2, "dx = dy (1 - y^2); (dy, y)")                            \
    X(sqrt_grad, SQRT_GRAD, sqrt_grad, 2, "dx = dy / (2 y); (dy, y)")

#endif
