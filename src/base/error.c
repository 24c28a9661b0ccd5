/* base/error.c - errors as values. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ft_status_text(ft_status status)
{
    static const char *const texts[] = {
#define FT_STATUS_TEXT(name, text) text,
        FT_STATUS_LIST(FT_STATUS_TEXT)
#undef FT_STATUS_TEXT
    };
    return (unsigned)status < FT_STATUS_COUNT ? texts[status] : "unknown status";
}

/* What a file or a user gave may hold anything; a message is one line that a terminal may show. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7F) *text = '?';
}

ft_status ft_fail(ft_error *err, ft_status status, const char *format, ...)
{
    if (!err) return status;
    va_list args;
    va_start(args, format);
    err->status = status;
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    make_printable(err->message);
    return status;
}

ft_status ft_error_wrap(ft_error *err, const char *format, ...)
{
    if (!err) return FT_INVALID;
    char old[sizeof err->message];
    memcpy(old, err->message, sizeof old);
    va_list args;
    va_start(args, format);
    int used = vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    int left = (int)sizeof err->message - used;
    /* what does not fit is cut */
    if (used >= 0 && left > 0 && snprintf(err->message + used, (size_t)left, ": %s", old) < 0)
        err->message[used] = '\0';
    make_printable(err->message);
    return err->status;
}
