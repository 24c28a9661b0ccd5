/* bind_values/database.c - core.database: SQLite files that several processes write at once.
 *
 * A file is in WAL mode; who finds it locked waits. Write in transactions that begin with BEGIN
 * IMMEDIATE, so that none of them has to begin anew. */
#include <sqlite3.h>
#include <string.h>

#include "bind_values/bind_values.h"

static const char DATABASE[] = "ftpipe.database";
enum { WAIT_MS = 60000 }; /* for other processes */

/* Notes what SQLite says of a file that it could not read or write. */
static ft_status fail(sqlite3 *db, const char *doing, ft_error *err)
{
    const char *path = sqlite3_db_filename(db, "main");
    int code = sqlite3_errcode(db);
    bool malformed = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
    return ft_fail(err, malformed ? FT_FORMAT : FT_IO, "%s: %s: %s", path ? path : "a database",
                   doing, sqlite3_errmsg(db));
}

static int database_close(lua_State *L)
{
    void **box = script_box(L, 1, DATABASE);
    if (*box) sqlite3_close_v2(*box);
    *box = NULL;
    return 0;
}

/* open(path): the database of that file, which is made when it is not there. */
static int database_open(lua_State *L)
{
    const char *path = script_check_string(L, 1);
    void **box = script_box_new(L, DATABASE);
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    int rc = sqlite3_open_v2(path, &db, flags, NULL);
    *box = db;
    if (rc == SQLITE_OK) {
        sqlite3_busy_timeout(db, WAIT_MS);
        rc = sqlite3_exec(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", NULL, NULL,
                          NULL);
    }
    if (rc == SQLITE_OK) return 1;
    ft_error err;
    if (db)
        fail(db, "opening", &err);
    else
        ft_fail(&err, FT_NOMEM, "%s: not enough memory to open it", path);
    return script_raise(L, &err);
}

/* Puts n arguments from index 3 on in the place of the question marks. */
static int bind_values(lua_State *L, sqlite3_stmt *statement, int n)
{
    int rc = SQLITE_OK;
    for (int i = 3; i < n + 3 && rc == SQLITE_OK; i++) {
        size_t size = 0;
        const char *text = NULL;
        switch (lua_type(L, i)) {
        case LUA_TNUMBER: rc = sqlite3_bind_double(statement, i - 2, lua_tonumber(L, i)); break;
        case LUA_TSTRING:
            text = lua_tolstring(L, i, &size);
            rc = sqlite3_bind_text64(statement, i - 2, text, size, SQLITE_TRANSIENT, SQLITE_UTF8);
            break;
        default: rc = sqlite3_bind_null(statement, i - 2);
        }
    }
    return rc;
}

/* Pushes the row as a table by the names of its columns; NULL is absent. */
static void push_row(lua_State *L, sqlite3_stmt *statement)
{
    int n = sqlite3_column_count(statement);
    lua_createtable(L, 0, n);
    for (int i = 0; i < n; i++) {
        switch (sqlite3_column_type(statement, i)) {
        case SQLITE_NULL: continue;
        case SQLITE_INTEGER:
        case SQLITE_FLOAT: lua_pushnumber(L, sqlite3_column_double(statement, i)); break;
        default:
            lua_pushlstring(L, (const char *)sqlite3_column_text(statement, i),
                            (size_t)sqlite3_column_bytes(statement, i));
        }
        lua_setfield(L, -2, sqlite3_column_name(statement, i));
    }
}

static int statement_close(lua_State *L)
{
    void **box = script_box(L, 1, "ftpipe.statement");
    sqlite3_finalize(*box);
    *box = NULL;
    return 0;
}

/* database:run(sql, ...): the rows that a statement gives, a list; `...` are numbers, texts and nil
 * for its question marks. */
static int database_run(lua_State *L)
{
    sqlite3 *db = script_box_check(L, 1, DATABASE);
    const char *sql = script_check_string(L, 2);
    int n_values = lua_gettop(L) - 2;
    void **box = script_box_new(L, "ftpipe.statement");
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    *box = statement;
    if (rc == SQLITE_OK) rc = bind_values(L, statement, n_values);
    lua_newtable(L);
    int n = 0;
    if (rc == SQLITE_OK) {
        while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
            push_row(L, statement);
            lua_rawseti(L, -2, ++n);
        }
    }
    if (rc == SQLITE_DONE || rc == SQLITE_OK) {
        sqlite3_finalize(statement);
        *box = NULL;
        return 1;
    }
    ft_error err;
    fail(db, sql, &err);
    return script_raise(L, &err);
}

int script_bind_database(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"run", database_run}, {"close", database_close}, {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__gc", database_close}, {NULL, NULL}};
    static const luaL_Reg statement_meta[] = {{"__gc", statement_close}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"open", database_open}, {NULL, NULL}};
    script_class(L, "ftpipe.statement", NULL, statement_meta);
    script_class(L, DATABASE, methods, meta);
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    return 1;
}
