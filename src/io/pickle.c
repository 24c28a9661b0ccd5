/* io/pickle.c - the part of Python's pickle language that a PyTorch state dict is written in.
 *
 * A pickle is a program for a stack machine that may call any function by its name. This reader
 * knows the opcodes that build dicts, tuples, numbers and strings, and a few names; it makes values
 * in an arena and calls nothing. Source: Lib/pickletools.py of CPython; torch/serialization.py. */
#include "io/pickle.h"

#include <string.h>

typedef enum { MARK, NONE, NUMBER, TEXT, LIST, DICT, GLOBAL, STORAGE, TENSOR } kind;

typedef enum { NEW_DICT, NEW_TENSOR, NEW_PARAMETER, STORAGE_TYPE } callee;

typedef struct value value;
struct value {
    kind kind;
    callee callee;              /* GLOBAL */
    const ft_file_dtype *dtype; /* STORAGE, GLOBAL of a storage type */
    union {
        struct {                 /* first: this is what an initializer without it zeroes */
            value **items;       /* LIST (tuples too); DICT: key, value, key, value ... */
            int64_t n, capacity; /* of items */
        };
        int64_t number;     /* NUMBER (booleans too) */
        const char *text;   /* TEXT; key of a STORAGE */
        ft_pickled *tensor; /* TENSOR */
    };
};

/* A tensor takes some twenty values, and fewer of those again from the memo: a file of
 * FT_MAX_TENSORS, a few more. */
enum { MAX_VALUES = 24 * FT_MAX_TENSORS };

typedef struct machine {
    ft_pickles *pickles;
    int64_t begin;      /* of the pickle, in the file */
    unsigned char code; /* that is executed, and where it is */
    int64_t code_at;
    ft_arena *arena;
    value stack, memo; /* used as lists */
    int64_t n_values, n_gets;
    ft_error *err;
} machine;

static ft_status bad(const machine *m, const char *what)
{
    return ft_fail(m->err, FT_FORMAT, "%s", what);
}

static ft_status no_memory(const machine *m)
{
    return ft_fail(m->err, FT_NOMEM, "no memory");
}

/* -- values ----------------------------------------------------------------------------------- */

static ft_status append(const machine *m, value *list, value *item)
{
    if (list->n == list->capacity) {
        int64_t capacity = 2 * list->capacity + 8;
        value **items = ft_arena_array(m->arena, capacity, sizeof(value *));
        if (!items) return no_memory(m);
        if (list->n) memcpy(items, list->items, (size_t)list->n * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = item;
    return FT_OK;
}

/* Pushes a new value; the caller fills it in. */
static ft_status push(machine *m, kind wanted, value **out)
{
    if (m->n_values++ == MAX_VALUES)
        return ft_fail(m->err, FT_FORMAT, "makes more than %d values", MAX_VALUES);
    value *made = ft_arena_alloc(m->arena, sizeof *made);
    if (!made) return no_memory(m);
    made->kind = wanted;
    *out = made;
    return append(m, &m->stack, made);
}

static ft_status push_number(machine *m, int64_t number)
{
    value *made = NULL;
    FT_TRY(push(m, NUMBER, &made));
    made->number = number;
    return FT_OK;
}

/* Pops a value of a kind. */
static ft_status pop(machine *m, kind wanted, value **out)
{
    if (m->stack.n == 0) return bad(m, "the stack is empty");
    *out = m->stack.items[--m->stack.n];
    return (*out)->kind == wanted ? FT_OK : bad(m, "a value is of another kind than expected");
}

/* Pops what is above the last mark, and the mark, into *list. */
static ft_status pop_marked(machine *m, value *list)
{
    int64_t i = m->stack.n - 1;
    while (i >= 0 && m->stack.items[i]->kind != MARK) i--;
    if (i < 0) return bad(m, "no mark on the stack");
    *list = (value){.kind = LIST};
    for (int64_t k = i + 1; k < m->stack.n; k++) FT_TRY(append(m, list, m->stack.items[k]));
    m->stack.n = i;
    return FT_OK;
}

/* -- bytes ------------------------------------------------------------------------------------ */

void ft_pickles_of(ft_pickles *out, int fd, int64_t begin, int64_t end, const char *path)
{
    *out = (ft_pickles){.fd = fd, .path = path, .next = begin, .end = end};
}

int64_t ft_pickles_at(const ft_pickles *p)
{
    return p->next - (p->n - p->used);
}

/* Makes room in the window and fills it as far as there are bytes. */
static ft_status refill(ft_pickles *p, ft_error *err)
{
    int rest = p->n - p->used, room = FT_PICKLE_OPERAND - rest;
    int more = p->end - p->next < room ? (int)(p->end - p->next) : room;
    memmove(p->window, p->window + p->used, (size_t)rest);
    p->used = 0;
    p->n = rest;
    FT_TRY(ft_pread_all(p->fd, p->window + rest, more, p->next, p->path, err));
    p->next += more;
    p->n += more;
    return FT_OK;
}

/* Whether n more bytes are there; then they are in the window. */
static ft_status look(machine *m, int64_t n, bool *there)
{
    if (m->pickles->n - m->pickles->used < n) FT_TRY(refill(m->pickles, m->err));
    *there = m->pickles->n - m->pickles->used >= n;
    return FT_OK;
}

/* The bytes stay until the next are taken. */
static ft_status take(machine *m, int64_t n, const unsigned char **out)
{
    bool there = false;
    if (n > FT_PICKLE_OPERAND)
        return ft_fail(m->err, FT_FORMAT, "an operand of %lld bytes is over the limit of %d",
                       (long long)n, FT_PICKLE_OPERAND);
    FT_TRY(look(m, n, &there));
    if (!there) return bad(m, "ends within an operand");
    *out = m->pickles->window + m->pickles->used;
    m->pickles->used += (int)n;
    return FT_OK;
}

/* -- operands --------------------------------------------------------------------------------- */

/* An unsigned little-endian integer of n bytes, at most 8. */
static ft_status take_size(machine *m, int n, int64_t *out)
{
    const unsigned char *p = NULL;
    uint64_t number = 0;
    FT_TRY(take(m, n, &p));
    for (int i = n - 1; i >= 0; i--) number = number << 8 | p[i];
    if (number > INT64_MAX) return bad(m, "an integer past 2^63");
    *out = (int64_t)number;
    return FT_OK;
}

/* A string of n bytes, copied. */
static ft_status take_text(machine *m, int64_t n, const char **out)
{
    const unsigned char *p = NULL;
    FT_TRY(take(m, n, &p));
    char *text = ft_arena_alloc(m->arena, n + 1);
    if (!text) return no_memory(m);
    memcpy(text, p, (size_t)n);
    if (memchr(text, 0, (size_t)n)) return bad(m, "a string holds a NUL byte");
    *out = text;
    return FT_OK;
}

/* A string up to the end of the line. */
static ft_status take_line(machine *m, const char **out)
{
    const unsigned char *newline = NULL, *skipped = NULL;
    const ft_pickles *p = m->pickles;
    for (int attempt = 0; attempt < 2 && !newline; attempt++) {
        if (attempt) FT_TRY(refill(m->pickles, m->err));
        newline = memchr(p->window + p->used, '\n', (size_t)(p->n - p->used));
    }
    if (!newline) return bad(m, "ends within a line");
    FT_TRY(take_text(m, newline - (p->window + p->used), out));
    return take(m, 1, &skipped);
}

static ft_status push_text(machine *m, int size_bytes)
{
    int64_t n = 0;
    value *made = NULL;
    FT_TRY(take_size(m, size_bytes, &n));
    FT_TRY(push(m, TEXT, &made));
    return take_text(m, n, &made->text);
}

/* LONG1: a two's complement integer of a counted number of bytes. */
static ft_status push_long(machine *m)
{
    int64_t n = 0;
    const unsigned char *p = NULL;
    uint64_t number = 0;
    FT_TRY(take_size(m, 1, &n));
    FT_TRY(take(m, n, &p));
    if (n > 8) return bad(m, "an integer past 2^63");
    if (n > 0 && p[n - 1] & 0x80) number = UINT64_MAX;
    for (int64_t i = n - 1; i >= 0; i--) number = number << 8 | p[i];
    return push_number(m, (int64_t)number);
}

static ft_status push_int32(machine *m)
{
    int64_t number = 0;
    FT_TRY(take_size(m, 4, &number));
    return push_number(m, (int32_t)(uint32_t)number);
}

/* -- the memo --------------------------------------------------------------------------------- */

/* Writers number what they remember 0, 1, 2 ... */
static ft_status remember(machine *m, int64_t index)
{
    if (m->stack.n == 0) return bad(m, "the stack is empty");
    if (index != m->memo.n) return bad(m, "the memo is not numbered in order");
    return append(m, &m->memo, m->stack.items[m->stack.n - 1]);
}

static ft_status put(machine *m, int size_bytes)
{
    int64_t index = 0;
    FT_TRY(take_size(m, size_bytes, &index));
    return remember(m, index);
}

static ft_status get(machine *m, int size_bytes)
{
    int64_t index = 0;
    FT_TRY(take_size(m, size_bytes, &index));
    if (m->n_gets++ == MAX_VALUES)
        return ft_fail(m->err, FT_FORMAT, "repeats more than %d values", MAX_VALUES);
    if (index >= m->memo.n) return bad(m, "nothing is remembered under a number");
    return append(m, &m->stack, m->memo.items[index]);
}

/* -- names and calls -------------------------------------------------------------------------- */

typedef struct known_name {
    const char *module, *name;
    callee callee;
    const char *dtype;
} known_name;

static const known_name names[] = {
    {"collections", "OrderedDict", NEW_DICT, NULL},
    {"torch._utils", "_rebuild_tensor_v2", NEW_TENSOR, NULL},
    {"torch._utils", "_rebuild_parameter", NEW_PARAMETER, NULL},
    {"torch", "FloatStorage", STORAGE_TYPE, "F32"},
    {"torch", "DoubleStorage", STORAGE_TYPE, "F64"},
    {"torch", "HalfStorage", STORAGE_TYPE, "F16"},
    {"torch", "BFloat16Storage", STORAGE_TYPE, "BF16"},
    {"torch", "LongStorage", STORAGE_TYPE, "I64"},
    {"torch", "IntStorage", STORAGE_TYPE, "I32"},
    {"torch", "ShortStorage", STORAGE_TYPE, "I16"},
    {"torch", "CharStorage", STORAGE_TYPE, "I8"},
    {"torch", "ByteStorage", STORAGE_TYPE, "U8"},
    {"torch", "BoolStorage", STORAGE_TYPE, "BOOL"},
};

static ft_status push_global(machine *m, const char *module, const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i].module, module) != 0 || strcmp(names[i].name, name) != 0) continue;
        value *made = NULL;
        FT_TRY(push(m, GLOBAL, &made));
        made->callee = names[i].callee;
        if (names[i].dtype) made->dtype = ft_file_dtype_find(names[i].dtype);
        return FT_OK;
    }
    return ft_fail(m->err, FT_FORMAT, "names '%s.%s', which weights do not need",
                   ft_show(module).text, ft_show(name).text);
}

static ft_status read_global(machine *m)
{
    const char *module, *name;
    FT_TRY(take_line(m, &module));
    FT_TRY(take_line(m, &name));
    return push_global(m, module, name);
}

static ft_status stack_global(machine *m)
{
    value *module, *name;
    FT_TRY(pop(m, TEXT, &name));
    FT_TRY(pop(m, TEXT, &module));
    return push_global(m, module->text, name->text);
}

/* ('storage', type, key, device, elements) to a storage; a sixth value, which says of what storage
 * this is a part, is None. */
static ft_status push_storage(machine *m)
{
    value *id, *made;
    FT_TRY(pop(m, LIST, &id));
    bool whole = id->n == 5 || (id->n == 6 && id->items[5]->kind == NONE);
    if (!whole || id->items[0]->kind != TEXT || strcmp(id->items[0]->text, "storage") != 0 ||
        id->items[1]->kind != GLOBAL || id->items[1]->callee != STORAGE_TYPE ||
        id->items[2]->kind != TEXT)
        return bad(m, "a reference to a storage is not in the form that PyTorch writes");
    FT_TRY(push(m, STORAGE, &made));
    made->text = id->items[2]->text;
    made->dtype = id->items[1]->dtype;
    return FT_OK;
}

/* Whether a value is a list of n numbers, none negative. */
static bool is_sizes(const value *list, int64_t n)
{
    if (list->kind != LIST || list->n != n) return false;
    for (int64_t i = 0; i < list->n; i++)
        if (list->items[i]->kind != NUMBER || list->items[i]->number < 0) return false;
    return true;
}

/* (storage, offset, sizes, strides, requires_grad, hooks) to a tensor. */
static ft_status push_tensor(machine *m, const value *args)
{
    value *made = NULL;
    if (args->n < 4 || args->items[0]->kind != STORAGE || args->items[1]->kind != NUMBER ||
        args->items[1]->number < 0 || args->items[2]->kind != LIST)
        return bad(m, "a tensor is not in the form that PyTorch writes");
    const value *sizes = args->items[2];
    bool fits = sizes->n <= FT_MAX_DIMS; /* longer lists are not even looked through */
    if (fits && (!is_sizes(sizes, sizes->n) || !is_sizes(args->items[3], sizes->n)))
        return bad(m, "a tensor is not in the form that PyTorch writes");
    if (!fits)
        return ft_fail(m->err, FT_UNSUPPORTED, "a tensor has more than %d dimensions", FT_MAX_DIMS);
    FT_TRY(push(m, TENSOR, &made));
    made->tensor = ft_arena_alloc(m->arena, sizeof *made->tensor);
    if (!made->tensor) return no_memory(m);
    *made->tensor = (ft_pickled){.storage = args->items[0]->text, .dtype = args->items[0]->dtype};
    made->tensor->offset = args->items[1]->number;
    made->tensor->n_dims = (int)sizes->n;
    for (int64_t i = 0; i < sizes->n; i++) {
        made->tensor->dims[i] = sizes->items[i]->number;
        made->tensor->strides[i] = args->items[3]->items[i]->number;
    }
    return FT_OK;
}

static ft_status reduce(machine *m)
{
    value *args, *function, *made;
    FT_TRY(pop(m, LIST, &args));
    FT_TRY(pop(m, GLOBAL, &function));
    switch (function->callee) {
    case NEW_DICT: return args->n == 0 ? push(m, DICT, &made) : bad(m, "a dict made of arguments");
    case NEW_TENSOR: return push_tensor(m, args);
    case NEW_PARAMETER:
        if (args->n == 0 || args->items[0]->kind != TENSOR)
            return bad(m, "a parameter of no tensor");
        return append(m, &m->stack, args->items[0]);
    case STORAGE_TYPE: break;
    }
    return bad(m, "calls a storage type");
}

/* -- containers ------------------------------------------------------------------------------- */

/* The last n values as a tuple. */
static ft_status make_tuple(machine *m, int n)
{
    value *made = NULL;
    if (m->stack.n < n) return bad(m, "the stack is empty");
    value **items = m->stack.items + m->stack.n - n;
    value list = {.kind = LIST};
    for (int i = 0; i < n; i++) FT_TRY(append(m, &list, items[i]));
    m->stack.n -= n;
    FT_TRY(push(m, LIST, &made));
    *made = list;
    return FT_OK;
}

static ft_status marked_tuple(machine *m)
{
    value *made, list;
    FT_TRY(pop_marked(m, &list));
    FT_TRY(push(m, LIST, &made));
    *made = list;
    return FT_OK;
}

/* Appends to the container below: what is above the mark, or the last n values. */
static ft_status extend(machine *m, kind wanted, int n)
{
    value list = {.kind = LIST};
    if (n == 0)
        FT_TRY(pop_marked(m, &list));
    else if (m->stack.n < n)
        return bad(m, "the stack is empty");
    for (int i = 0; i < n; i++) FT_TRY(append(m, &list, m->stack.items[m->stack.n - n + i]));
    m->stack.n -= n;
    if (m->stack.n == 0 || m->stack.items[m->stack.n - 1]->kind != wanted)
        return bad(m, "adds to what is no container");
    if (wanted == DICT && list.n % 2 != 0) return bad(m, "a key without a value");
    for (int64_t i = 0; i < list.n; i++)
        FT_TRY(append(m, m->stack.items[m->stack.n - 1], list.items[i]));
    return FT_OK;
}

/* -- the program ------------------------------------------------------------------------------ */

/* Opcodes that push a number, a string or an empty container; their names in pickletools.py are in
 * the comments. *known is false for every other one. */
static ft_status push_constant(machine *m, unsigned char code, bool *known)
{
    value *made = NULL;
    int64_t number = 0;
    switch (code) {
    case '(': return push(m, MARK, &made);
    case '}': return push(m, DICT, &made);
    case ')':
    case ']': return push(m, LIST, &made);
    case 'N': return push(m, NONE, &made);
    case 0x88: return push_number(m, 1); /* NEWTRUE */
    case 0x89: return push_number(m, 0); /* NEWFALSE */
    case 'J': return push_int32(m);      /* BININT */
    case 'K':                            /* BININT1, BININT2 */
    case 'M': FT_TRY(take_size(m, code == 'K' ? 1 : 2, &number)); return push_number(m, number);
    case 0x8a: return push_long(m);    /* LONG1 */
    case 'X': return push_text(m, 4);  /* BINUNICODE */
    case 0x8c: return push_text(m, 1); /* SHORT_BINUNICODE */
    default: *known = false; return FT_OK;
    }
}

/* Executes one opcode. */
static ft_status execute(machine *m, unsigned char code)
{
    const unsigned char *skipped = NULL;
    value *attributes = NULL;
    bool known = true;
    ft_status status = push_constant(m, code, &known);
    if (known) return status;
    switch (code) {
    case 'q': return put(m, 1);
    case 'r': return put(m, 4);
    case 0x94: return remember(m, m->memo.n); /* MEMOIZE */
    case 'h': return get(m, 1);
    case 'j': return get(m, 4);
    case 't': return marked_tuple(m);
    case 0x85: return make_tuple(m, 1);
    case 0x86: return make_tuple(m, 2);
    case 0x87: return make_tuple(m, 3);
    case 'a': return extend(m, LIST, 1);
    case 'e': return extend(m, LIST, 0);
    case 's': return extend(m, DICT, 2);
    case 'u': return extend(m, DICT, 0);
    case 'c': return read_global(m);
    case 0x93: return stack_global(m);
    case 'Q': return push_storage(m); /* BINPERSID */
    case 'R': return reduce(m);
    case 'b': return pop(m, DICT, &attributes); /* BUILD: attributes of a dict mean nothing here */
    case 0x80: return take(m, 1, &skipped);     /* PROTO */
    case 0x95: return take(m, 8, &skipped);     /* FRAME */
    default: break;
    }
    return bad(m, "weights do not need it");
}

/* Executes the program up to its stop; *left is what it leaves. */
static ft_status run(machine *m, value **left)
{
    bool there = false;
    const unsigned char *code = NULL;
    for (;;) {
        FT_TRY(look(m, 1, &there));
        if (!there) return bad(m, "no stop follows");
        m->code_at = ft_pickles_at(m->pickles) - m->begin;
        FT_TRY(take(m, 1, &code));
        m->code = *code;
        if (m->code == '.') break;
        FT_TRY(execute(m, m->code));
    }
    if (m->stack.n == 0) return bad(m, "the stack is empty");
    *left = m->stack.items[m->stack.n - 1];
    return FT_OK;
}

static machine machine_of(ft_pickles *pickles, ft_arena *arena, ft_error *err)
{
    return (machine){
        .pickles = pickles, .begin = ft_pickles_at(pickles), .arena = arena, .err = err};
}

/* Says of a failure where it was. */
static ft_status told(const machine *m, const char *what, ft_status status)
{
    if (status != FT_OK)
        ft_error_wrap(m->err, "%s: %s: opcode 0x%02x at byte %lld", m->pickles->path, what, m->code,
                      (long long)m->code_at);
    return status;
}

/* -- what it leaves --------------------------------------------------------------------------- */

static ft_status collect_tensors(machine *m, ft_pickled **out, int *n)
{
    value *dict = NULL;
    FT_TRY(run(m, &dict));
    if (dict->kind != DICT) return bad(m, "a value is of another kind than expected");
    if (dict->n / 2 > FT_MAX_TENSORS) /* before there is a row for each */
        return ft_fail(m->err, FT_FORMAT, "names %lld tensors, over the limit of %d",
                       (long long)(dict->n / 2), FT_MAX_TENSORS);
    *out = ft_arena_array(m->arena, dict->n / 2 + 1, sizeof(ft_pickled));
    if (!*out) return no_memory(m);
    for (int64_t i = 0; i < dict->n; i += 2) {
        const value *key = dict->items[i], *item = dict->items[i + 1];
        if (key->kind != TEXT) return bad(m, "a key is not a string");
        if (item->kind != TENSOR)
            return ft_fail(m->err, FT_FORMAT, "'%s' is not a tensor", ft_show(key->text).text);
        (*out)[*n] = *item->tensor;
        (*out)[(*n)++].name = key->text;
    }
    return FT_OK;
}

ft_status ft_pickle_tensors(ft_pickled **out, int *n, ft_arena *arena, ft_pickles *pickles,
                            const char *what, ft_error *err)
{
    machine m = machine_of(pickles, arena, err);
    *n = 0;
    return told(&m, what, collect_tensors(&m, out, n));
}

static ft_status collect_texts(machine *m, const char ***out, int64_t *n)
{
    value *list = NULL;
    FT_TRY(run(m, &list));
    if (list->kind != LIST) return bad(m, "a value is of another kind than expected");
    *out = ft_arena_array(m->arena, list->n + 1, sizeof(char *));
    if (!*out) return no_memory(m);
    for (int64_t i = 0; i < list->n; i++) {
        if (list->items[i]->kind != TEXT) return bad(m, "an item is not a string");
        (*out)[(*n)++] = list->items[i]->text;
    }
    return FT_OK;
}

ft_status ft_pickle_texts(const char ***out, int64_t *n, ft_arena *arena, ft_pickles *pickles,
                          const char *what, ft_error *err)
{
    machine m = machine_of(pickles, arena, err);
    *n = 0;
    return told(&m, what, collect_texts(&m, out, n));
}

static ft_status find_number(machine *m, const char *key, int64_t *out)
{
    value *dict = NULL;
    FT_TRY(run(m, &dict));
    for (int64_t i = 0; dict->kind == DICT && i < dict->n; i += 2) {
        const value *name = dict->items[i], *item = dict->items[i + 1];
        if (name->kind != TEXT || strcmp(name->text, key) != 0 || item->kind != NUMBER) continue;
        *out = item->number;
        return FT_OK;
    }
    return ft_fail(m->err, FT_FORMAT, "does not say '%s'", key);
}

ft_status ft_pickle_number(int64_t *out, const char *key, ft_arena *arena, ft_pickles *pickles,
                           const char *what, ft_error *err)
{
    machine m = machine_of(pickles, arena, err);
    return told(&m, what, find_number(&m, key, out));
}
