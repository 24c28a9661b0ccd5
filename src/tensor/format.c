/* tensor/format.c - tensors for people.
 *
 *   tensor f32 (2, 3)
 *   [[1, 2, 3],
 *    [4, 5, 6]]
 *
 * Columns are as wide as their widest element. Of a tensor of more than 1000 elements, axes longer
 * than six show three elements at each end, unless the whole is asked for. Of one with more than 16
 * elements, or with some that are not finite, the first line says what numbers they are:
 *
 *   tensor f32 (300, 4): min 0, max 1199, mean 599.5, deviation 346.4, 2 NaN */
#include "tensor/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EDGE = 3, WHOLE_COUNT = 1000, FEW = 16, CELL = 40 };

typedef struct printer {
    const ft_view *view;
    ft_text *text;
    bool elide;
    int width; /* 0 while measuring */
    int widest;
} printer;

static int format_cell(const ft_view *view, int64_t index, char *cell)
{
    const char *address = ft_view_address(view, index);
    int64_t integer;
    if (isnan(ft_view_get(view, index))) return snprintf(cell, CELL, "nan"); /* no sign */
    switch (view->dtype) {
    case FT_BOOL: return snprintf(cell, CELL, "%s", *address ? "true" : "false");
    case FT_I64:
        memcpy(&integer, address, sizeof integer);
        return snprintf(cell, CELL, "%lld", (long long)integer);
    case FT_F64: return snprintf(cell, CELL, "%.9g", ft_view_get(view, index));
    case FT_F16:
    case FT_BF16: return snprintf(cell, CELL, "%.4g", ft_view_get(view, index));
    case FT_F32: return snprintf(cell, CELL, "%.6g", ft_view_get(view, index));
    default: return snprintf(cell, CELL, "%.0f", ft_view_get(view, index));
    }
}

static void print_cell(printer *p, int64_t index)
{
    char cell[CELL];
    int length = format_cell(p->view, index, cell);
    if (length > p->widest) p->widest = length;
    if (p->width) ft_text_add(p->text, "%*s", p->width, cell);
}

static void print_break(const printer *p, int axis)
{
    if (!p->width) return;
    int deeper = p->view->shape.n_dims - 1 - axis; /* brackets that close, then open again */
    ft_text_add(p->text, deeper ? "," : ", ");
    for (int i = 0; i < deeper; i++) ft_text_add(p->text, "\n");
    if (deeper) ft_text_add(p->text, "%*s", axis + 1, "");
}

/* The part of the tensor below axis `axis`, whose first element has the flat index `first`. */
static void print_axis(printer *p, int axis, int64_t first)
{
    const ft_shape *shape = &p->view->shape;
    if (axis == shape->n_dims) {
        print_cell(p, first);
        return;
    }
    int64_t step = 1, length = shape->dims[axis];
    for (int i = axis + 1; i < shape->n_dims; i++) step *= shape->dims[i];
    if (p->width) ft_text_add(p->text, "[");
    for (int64_t i = 0; i < length; i++) {
        if (i) print_break(p, axis);
        if (p->elide && length > 2 * EDGE && i == EDGE) {
            if (p->width) ft_text_add(p->text, "...");
            i = length - EDGE - 1;
        } else
            print_axis(p, axis + 1, first + i * step);
    }
    if (p->width) ft_text_add(p->text, "]");
}

static void print_stats(const ft_view *view, ft_text *text)
{
    ft_stats s = ft_view_stats(view);
    int64_t n_odd = s.n_nan + s.n_infinite;
    if (s.count > FEW)
        ft_text_add(text, ", %s", ft_text_of_bytes(s.count * ft_dtype_bytes(view->dtype)).text);
    if (s.count <= FEW && n_odd == 0) return;
    ft_text_add(text, ":");
    if (view->dtype == FT_BOOL) {
        ft_text_add(text, " %.0f true", s.mean * (double)s.count);
        return;
    }
    if (n_odd < s.count)
        ft_text_add(text, " min %.4g, max %.4g, mean %.4g, deviation %.4g%s", s.min, s.max, s.mean,
                    s.deviation, n_odd ? "," : "");
    if (s.n_nan) ft_text_add(text, " %lld NaN%s", (long long)s.n_nan, s.n_infinite ? "," : "");
    if (s.n_infinite) ft_text_add(text, " %lld infinite", (long long)s.n_infinite);
}

ft_status ft_tensor_format(const ft_view *view, bool whole, ft_text *text)
{
    char shape[160];
    ft_text_add(text, "tensor %s %s", ft_dtype_name(view->dtype),
                ft_shape_format(&view->shape, shape, sizeof shape));
    print_stats(view, text);
    ft_text_add(text, "\n");
    printer p = {.view = view, .text = text};
    int64_t count = ft_shape_count(&view->shape);
    p.elide = !whole && count > WHOLE_COUNT;
    if (count == 0) {
        ft_text_add(text, "[]");
    } else {
        print_axis(&p, 0, 0);
        p.width = p.widest;
        print_axis(&p, 0, 0);
    }
    return text->failed ? FT_NOMEM : FT_OK;
}
