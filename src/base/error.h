/* base/error.h - errors as values.
 *
 * Anything that can fail returns ft_status and takes an ft_error *err last (NULL is allowed).
 * The place that knows writes the message: what, where, the values, what was expected; lower case,
 * no full stop. Callers pass it on with FT_TRY, or add one layer of context with ft_error_wrap. */
#ifndef FT_BASE_ERROR_H
#define FT_BASE_ERROR_H

#define FT_STATUS_LIST(X)                                                                          \
    X(OK, "ok")                                                                                    \
    X(INVALID, "invalid argument")                                                                 \
    X(SHAPE, "shape mismatch")                                                                     \
    X(NOT_FOUND, "not found")                                                                      \
    X(NOMEM, "out of memory")                                                                      \
    X(IO, "input or output failed")                                                                \
    X(FORMAT, "malformed data")                                                                    \
    X(DEVICE, "device failure")                                                                    \
    X(UNSUPPORTED, "unsupported")                                                                  \
    X(INFEASIBLE, "plan infeasible")                                                               \
    X(DIVERGED, "diverged")                                                                        \
    X(HANG, "lost worker")                                                                         \
    X(CANCELLED, "cancelled")

typedef enum {
#define FT_STATUS_ENUM(name, text) FT_##name,
    FT_STATUS_LIST(FT_STATUS_ENUM)
#undef FT_STATUS_ENUM
        FT_STATUS_COUNT
} ft_status;

/* An error is a value: it can be copied, moved between threads and wrapped with context. */
typedef struct ft_error {
    ft_status status;  /* FT_OK when nothing failed */
    char message[768]; /* one line, NUL-terminated, cut at the end when too long; what ft_fail and
                          ft_error_wrap fill has ? for control characters */
} ft_error;

/* The words of a status, for people ("shape mismatch"). */
const char *ft_status_text(ft_status status);

/* Fills *err (when not NULL) and returns status, so that a failure is one return statement. */
ft_status ft_fail(ft_error *err, ft_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " in front of the message of a failed *err; returns its status. */
ft_status ft_error_wrap(ft_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns from the enclosing function when expr fails. */
#define FT_TRY(expr)                                                                               \
    do {                                                                                           \
        ft_status ft_try_status = (expr);                                                          \
        if (ft_try_status != FT_OK) return ft_try_status;                                          \
    } while (0)

/* Sets the local `status` and jumps to the local label `done` when expr fails. */
#define FT_GO(expr)                                                                                \
    do {                                                                                           \
        status = (expr);                                                                           \
        if (status != FT_OK) goto done;                                                            \
    } while (0)

#endif
