/* tensor/stats.c - what numbers a tensor holds. */
#include "tensor/internal.h"

#include <math.h>

enum { PIECE = 256 };

/* n elements from flat index `first` on. */
static void read_piece(const ft_view *view, bool contiguous, int64_t first, int64_t n, double *out)
{
    if (contiguous) {
        const char *from = (const char *)view->data + first * ft_dtype_bytes(view->dtype);
        ft_convert(out, FT_F64, from, view->dtype, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) out[i] = ft_view_get(view, first + i);
}

/* Sums are of distances from the first number, so that a small spread around a large mean is not
 * lost. */
ft_stats ft_view_stats(const ft_view *view)
{
    ft_stats s = {.count = ft_shape_count(&view->shape)};
    bool contiguous = ft_view_contiguous(view);
    int64_t n = 0;
    double origin = 0, sum = 0, squares = 0;
    for (int64_t first = 0; first < s.count; first += PIECE) {
        double piece[PIECE];
        int64_t length = s.count - first < PIECE ? s.count - first : PIECE;
        read_piece(view, contiguous, first, length, piece);
        for (int64_t i = 0; i < length; i++) {
            double x = piece[i];
            s.n_nan += isnan(x) ? 1 : 0;
            s.n_infinite += isinf(x) ? 1 : 0;
            if (!isfinite(x)) continue;
            if (n++ == 0) s.min = s.max = origin = x;
            s.min = x < s.min ? x : s.min;
            s.max = x > s.max ? x : s.max;
            sum += x - origin;
            squares += (x - origin) * (x - origin);
        }
    }
    if (n == 0) return s;
    double shift = sum / (double)n;
    s.mean = origin + shift;
    s.deviation = sqrt(fmax(0, squares / (double)n - shift * shift));
    return s;
}
