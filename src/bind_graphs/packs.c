/* bind_graphs/packs.c - packed copies of weights that programs share. */
#include <string.h>

#include "base/alloc.h"
#include "bind_graphs/internal.h"

static const char PACKS[] = "ftpipe.packs";

typedef struct copy {
    ft_tensor *weight; /* kept, also when it is freed in Lua: no other one gets its address */
    const char *kind;  /* of ft_kernel_list.pack_kind */
    void *data;
    int64_t bytes;
} copy;

typedef struct packs {
    copy *list;
    int n, room;
} packs;

/*** Room for packed copies of weights. A program of these makes those that its products read when
 * it first gets the weights; they stay, with the weights, as long as this does. What is written to
 * a weight later is not seen.
 * @function program.packs
 * @treturn packs */
int program_packs(lua_State *L)
{
    ft_error err;
    void **box = script_box_new(L, PACKS);
    if (!(*box = ft_alloc(sizeof(packs)))) {
        ft_fail(&err, FT_NOMEM, "program: no memory");
        return script_raise(L, &err);
    }
    return 1;
}

static int packs_gc(lua_State *L)
{
    void **box = script_box(L, 1, PACKS);
    packs *p = *box;
    for (int i = 0; p && i < p->n; i++) {
        ft_pages_free(p->list[i].data, p->list[i].bytes);
        ft_tensor_release(p->list[i].weight);
    }
    if (p) ft_free(p->list);
    ft_free(p);
    *box = NULL;
    return 0;
}

bool packs_option(lua_State *L, int t)
{
    lua_getfield(L, t, "packs");
    if (lua_isnil(L, -1)) return false;
    if (!script_box_test(L, -1, PACKS))
        script_arg_error(L, t, "option 'packs': expected those of program.packs, got %s",
                         luaL_typename(L, -1));
    return true;
}

static const copy *find(const packs *p, const ft_pack *pack, const char *kind, const void *weight)
{
    for (int i = 0; i < p->n; i++) {
        const copy *c = &p->list[i];
        if (ft_tensor_view(c->weight)->data == weight && c->bytes == pack->bytes &&
            !strcmp(c->kind, kind))
            return c;
    }
    return NULL;
}

static bool grow(packs *p)
{
    if (p->n < p->room) return true;
    int room = p->room ? 2 * p->room : 64;
    copy *list = ft_realloc(p->list, room * (int64_t)sizeof *list);
    if (!list) return false;
    p->list = list;
    p->room = room;
    return true;
}

ft_status packs_get(lua_State *L, const ft_graph *graph, const ft_pack *pack, const void *weight,
                    ft_team *team, const void **data, ft_error *err)
{
    packs *p = script_box_check(L, lua_gettop(L) - 1, PACKS);
    const char *kind = pack->kernels->pack_kind(pack->op, ft_graph_node(graph, pack->node)->attrs);
    const copy *known = find(p, pack, kind, weight);
    if (known) {
        *data = known->data;
        return FT_OK;
    }
    copy c = {NULL, kind, NULL, pack->bytes};
    if (grow(p)) c.data = ft_pages_alloc(c.bytes);
    if (!c.data) return ft_fail(err, FT_NOMEM, "program: no memory for packed weights");
    ft_status status = ft_pack_make(graph, pack, weight, c.data, &(ft_packer){.team = team}, err);
    if (status != FT_OK) {
        ft_pages_free(c.data, c.bytes);
        return status;
    }
    c.weight = ft_tensor_retain(script_check_tensor(L, lua_gettop(L)));
    p->list[p->n++] = c;
    *data = c.data;
    script_gc_step(L, c.bytes);
    return FT_OK;
}

void script_packs_class(lua_State *L)
{
    static const luaL_Reg methods[] = {{NULL, NULL}};
    static const luaL_Reg meta[] = {{"__gc", packs_gc}, {NULL, NULL}};
    script_class(L, PACKS, methods, meta);
    lua_pop(L, 1);
}
