/* runtime/main.c - the executable: one Lua state, the C modules in package.preload, the search
 * for scripts, exit statuses.
 *
 * Owns nothing after main returns.  `terret --lua FILE ARG...` is a plain Lua 5.4 with our
 * modules in it; everything else is scripts/cli.lua.
 *
 * Scripts: package.path and package.cpath lose their relative entries before the first
 * require, since stock Lua looks into the working directory and would run a hostile
 * repository's cjson.lua.  A searcher of our own then serves terret.* from, in this order:
 * $TERRET_PATH, the user's configuration directory, PREFIX/share/terret/VERSION, the embedded text.
 * C modules are in package.preload, so that no file can shadow them. */
#include "terret.h"
#include "embedded.h"

#include <lualib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#define TERRET_VERSION "0.1.0"

#define MODULE(name) int luaopen_terret_##name(lua_State *L);
#include "modules.h"
#undef MODULE
#define MODULE(name) {"terret." #name, luaopen_terret_##name},
static const luaL_Reg modules[] = {
#include "modules.h"
    {NULL, NULL}};
#undef MODULE

/* What a user replaces by kind lies directly below the configuration directory. */
static const char *const kinds[] = {"tools", "loops",  "providers", "sandbox",
                                    "ui",    "agents", "commands",  NULL};

/* A table in the registry: module name -> where the script was found, for the session's manifest.
 */
#define LOADED "terret.loaded"

/* ---- terret.embedded: the text inside the executable ------------------------------------- */

static const struct tr_embedded *find_embedded(const char *name) {
    for (const struct tr_embedded *e = tr_embedded_files; e->name; e++)
        if (strcmp(e->name, name) == 0) return e;
    return NULL;
}

static int embedded_get(lua_State *L) {
    const struct tr_embedded *e = find_embedded(luaL_checkstring(L, 1));
    if (!e) return tr_fail(L, "not_found", "no embedded file '%s'", lua_tostring(L, 1));
    lua_pushlstring(L, e->text, e->size);
    return 1;
}

static int embedded_has(lua_State *L) {
    lua_pushboolean(L, find_embedded(luaL_checkstring(L, 1)) != NULL);
    return 1;
}

static int embedded_sha256(lua_State *L) {
    const struct tr_embedded *e = find_embedded(luaL_checkstring(L, 1));
    if (!e) return tr_fail(L, "not_found", "no embedded file '%s'", lua_tostring(L, 1));
    lua_pushstring(L, e->sha256);
    return 1;
}

/* The names that begin with the given text. */
static int embedded_list(lua_State *L) {
    const char *prefix = luaL_optstring(L, 1, "");
    size_t length = strlen(prefix);
    lua_newtable(L);
    lua_Integer n = 0;
    for (const struct tr_embedded *e = tr_embedded_files; e->name; e++) {
        if (strncmp(e->name, prefix, length) != 0) continue;
        lua_pushstring(L, e->name);
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

/* The configuration directory, or nil: $XDG_CONFIG_HOME/terret, else $HOME/.config/terret. */
static void push_config_dir(lua_State *L) {
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (xdg && xdg[0] == '/')
        lua_pushfstring(L, "%s/terret", xdg);
    else if (home && home[0] == '/')
        lua_pushfstring(L, "%s/.config/terret", home);
    else
        lua_pushnil(L);
}

static int open_embedded(lua_State *L) {
    static const luaL_Reg funcs[] = {{"get", embedded_get},
                                     {"has", embedded_has},
                                     {"list", embedded_list},
                                     {"sha256", embedded_sha256},
                                     {NULL, NULL}};
    luaL_newlib(L, funcs);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LOADED);
    lua_setfield(L, -2, "loaded");
    lua_pushliteral(L, TERRET_VERSION);
    lua_setfield(L, -2, "version");
    push_config_dir(L);
    lua_setfield(L, -2, "config_dir");
    const char *path = getenv("TERRET_PATH");
    if (path && path[0] == '/') {
        lua_pushstring(L, path);
        lua_setfield(L, -2, "path");
    }
    lua_pushliteral(L, TERRET_PREFIX "/share/terret/" TERRET_VERSION);
    lua_setfield(L, -2, "share_dir");
    return 1;
}

/* ---- the search for scripts --------------------------------------------------------------- */

/* Loads one candidate file as text.  Returns the number of results of a searcher, or 0 when the
 * file does not exist; a file that exists and does not compile raises: fail closed. */
static int try_file(lua_State *L, const char *file) {
    if (access(file, F_OK) != 0) return 0;
    if (luaL_loadfilex(L, file, "t") != LUA_OK) return luaL_error(L, "%s", lua_tostring(L, -1));
    lua_pushstring(L, file);
    return 2;
}

static int try_dir(lua_State *L, const char *dir, const char *rel) {
    int n = try_file(L, lua_pushfstring(L, "%s/%s.lua", dir, rel));
    return n ? n : try_file(L, lua_pushfstring(L, "%s/%s/init.lua", dir, rel));
}

static int try_embedded(lua_State *L, const char *name) {
    const struct tr_embedded *e = find_embedded(name);
    if (!e) return 0;
    const char *chunk = lua_pushfstring(L, "=[embedded %s]", name);
    /* The text is the truth; it is used when the bytecode is another Lua's. */
    if (e->code_size == 0 || luaL_loadbufferx(L, e->code, e->code_size, chunk, "b") != LUA_OK)
        if (luaL_loadbufferx(L, e->text, e->size, chunk, "t") != LUA_OK) return lua_error(L);
    lua_pushfstring(L, "[embedded %s]", name);
    return 2;
}

static bool is_kind(const char *rel) {
    for (size_t i = 0; kinds[i]; i++) {
        size_t n = strlen(kinds[i]);
        if (strncmp(rel, kinds[i], n) == 0 && (rel[n] == '/' || rel[n] == '\0')) return true;
    }
    return false;
}

/* "terret.tools.bash" -> tools/bash.lua below one of the roots.  Upvalues of the searcher:
 * $TERRET_PATH, the configuration directory, PREFIX/share/terret/VERSION; nil where there is no
 * such directory. */
static int find_script(lua_State *L, const char *name) {
    if (strcmp(name, "terret") == 0) name = "terret.init";
    if (strncmp(name, "terret.", 7) != 0 || strchr(name, '/') || strstr(name, "..")) {
        lua_pushliteral(L, "not a terret script");
        return 1;
    }
    const char *rel = luaL_gsub(L, name + 7, ".", "/");
    bool in_sandbox = strncmp(rel, "sandbox", 7) == 0 && (rel[7] == '/' || rel[7] == '\0');
    const char *built = in_sandbox ? "" : "scripts/";
    int n;
    const char *path = lua_tostring(L, lua_upvalueindex(1));
    if (path && (n = try_dir(L, path, rel)) > 0) return n;
    const char *config = lua_tostring(L, lua_upvalueindex(2));
    if (config && is_kind(rel) && (n = try_dir(L, config, rel)) > 0) return n;
    if (config && (in_sandbox || !is_kind(rel))) {
        const char *scripts = lua_pushfstring(L, "%s/scripts", config);
        if ((n = try_dir(L, scripts, rel)) > 0) return n;
    }
    const char *share = lua_tostring(L, lua_upvalueindex(3));
    if (share && (n = try_dir(L, lua_pushfstring(L, "%s/%s", share, built), rel)) > 0) return n;
    if ((n = try_embedded(L, lua_pushfstring(L, "%s%s.lua", built, rel))) > 0) return n;
    if ((n = try_embedded(L, lua_pushfstring(L, "%s%s/init.lua", built, rel))) > 0) return n;
    lua_pushfstring(L, "no script '%s' in any directory of terret", rel);
    return 1;
}

/* An entry of package.searchers. */
static int search_script(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    int n = find_script(L, name);
    if (n < 2) return n;
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LOADED); /* ... loader where loaded */
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
    return n;
}

/* Rewrites package[field] without the entries that don't start with "/". */
static void drop_relative(lua_State *L, int package, const char *field) {
    lua_getfield(L, package, field);
    const char *p = luaL_checkstring(L, -1);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    bool any = false;
    while (*p) {
        size_t n = strcspn(p, ";");
        if (*p == '/') {
            if (any) luaL_addchar(&b, ';');
            luaL_addlstring(&b, p, n);
            any = true;
        }
        p += n;
        if (*p == ';') p++;
    }
    luaL_pushresult(&b);
    lua_setfield(L, package, field);
    lua_pop(L, 1);
}

/* Replaces the path on top by nil when no module can be below it: most users have none of these
 * directories, and each module would be looked for in all of them. */
static void nil_unless_directory(lua_State *L) {
    const char *path = lua_tostring(L, -1);
    if (path && path[0] == '/' && access(path, F_OK) == 0) return;
    lua_pop(L, 1);
    lua_pushnil(L);
}

static void set_up_packages(lua_State *L) {
    lua_getglobal(L, "package");
    int package = lua_gettop(L);
    drop_relative(L, package, "path");
    drop_relative(L, package, "cpath");
    lua_getfield(L, package, "preload"); /* package preload */
    for (const luaL_Reg *m = modules; m->name; m++) {
        lua_pushcfunction(L, m->func);
        lua_setfield(L, -2, m->name);
    }
    lua_pushcfunction(L, open_embedded);
    lua_setfield(L, -2, "terret.embedded");
    lua_getfield(L, package, "searchers"); /* package preload searchers */
    /* Second place: after preload, before the file searchers of Lua. */
    for (lua_Integer i = (lua_Integer)lua_rawlen(L, -1); i >= 2; i--) {
        lua_rawgeti(L, -1, i);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushstring(L, getenv("TERRET_PATH"));
    nil_unless_directory(L);
    push_config_dir(L);
    nil_unless_directory(L);
    lua_pushliteral(L, TERRET_PREFIX "/share/terret/" TERRET_VERSION);
    nil_unless_directory(L);
    lua_pushcclosure(L, search_script, 3);
    lua_rawseti(L, -2, 2);
    lua_settop(L, package - 1);
}

/* ---- running ------------------------------------------------------------------------------- */

static int traceback(lua_State *L) {
    const char *text = lua_tostring(L, 1);
    if (!text) text = lua_pushfstring(L, "(error object is a %s)", luaL_typename(L, 1));
    luaL_traceback(L, L, text, 1);
    return 1;
}

static void set_arg(lua_State *L, int argc, char **argv, int script) {
    lua_createtable(L, argc, 1);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i - script);
    }
    lua_setglobal(L, "arg");
}

/* Protected body: arg is set; runs the file of --lua, or the command line script.  Leaves the
 * exit status. */
static int run(lua_State *L) {
    int argc = (int)lua_tointeger(L, 1);
    char **argv = lua_touserdata(L, 2);
    luaL_checkversion(L);
    luaL_openlibs(L);
    set_up_packages(L);
    bool plain = argc >= 2 && strcmp(argv[1], "--lua") == 0;
    if (plain && argc < 3) {
        fputs("terret: --lua needs a file: terret --lua FILE [ARG...]\n", stderr);
        lua_pushinteger(L, 2);
        return 1;
    }
    set_arg(L, argc, argv, plain ? 2 : 0);
    if (plain) {
        lua_gc(L, LUA_GCRESTART);
        if (luaL_loadfile(L, argv[2]) != LUA_OK) return lua_error(L);
        int first = 3, n = argc > first ? argc - first : 0;
        luaL_checkstack(L, n, "too many arguments");
        for (int i = 0; i < n; i++) lua_pushstring(L, argv[first + i]);
        lua_call(L, n, 0);
        lua_pushinteger(L, 0);
        return 1;
    }
#ifdef __linux__
    /* What a command leaves behind comes to us and is reaped. */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) == 0) tr_reactor_get(L)->reap_orphans = true;
#endif
    lua_getglobal(L, "require");
    lua_pushliteral(L, "terret.cli");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "main");
    lua_getglobal(L, "arg");
    lua_call(L, 1, 1);
    return 1;
}

/* Request bodies come and go, each a little larger than the last: without a fixed threshold glibc
 * keeps them in the heap, in holes that nothing fits. */
static void tune_malloc(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 64 * 1024);
    mallopt(M_TRIM_THRESHOLD, 128 * 1024);
    mallopt(M_ARENA_MAX, 1);
#endif
}

int main(int argc, char **argv) {
    tune_malloc();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file-size limit is an error of write(), not the end */
    lua_State *L = luaL_newstate();
    if (!L) {
        fputs("terret: out of memory\n", stderr);
        return 1;
    }
    lua_pushcfunction(L, traceback);
    lua_pushcfunction(L, run);
    lua_pushinteger(L, argc);
    lua_pushlightuserdata(L, argv);
    int status = 1;
    lua_gc(L, LUA_GCSTOP); /* until the first request is out; scripts/cli.lua restarts it */
    if (lua_pcall(L, 2, 1, 1) == LUA_OK)
        status = (int)lua_tointeger(L, -1);
    else
        fprintf(stderr, "terret: %s\n", lua_tostring(L, -1));
    lua_close(L);
    return status;
}
