/** The Lua machine in which all simulated Redis servers of a process live, each with data of its own. */
import { createHash } from 'node:crypto'
import { LuaFactory } from 'wasmoon'
import { server } from './lua.js'

export type Reply = string | number | null | readonly Reply[]

export interface Answer {
  readonly reply: Reply
  readonly published: readonly (readonly [channel: string, text: string])[]
}

/** An error reply of a server. */
export class ServerError extends Error {}

/** The simulation itself cannot execute the request: no server has replied, and nobody may treat this as a reply. */
export class SimulationError extends Error {}

/** A server's data and scripts. */
export interface Redis {
  /** The number of subscribers of `channel`. */
  listeners(channel: string, count: number): void
  /** @param now microseconds since 1970. @throws ServerError; SimulationError when the script needs a command that is not simulated */
  run(how: string, script: string, keys: readonly string[], args: readonly string[], now: number): Answer
  flush(): void
  /** The reply to INFO from now on. */
  tell(info: string): void
  /** Saves its current data. */
  save(): void
  /** Restores the data of the last `save()`. */
  recall(): void
  forgetScripts(): void
  /** Keys of locks that are held or waited for. */
  busy(now: number): readonly string[]
  end(): void
}

/** Text of a script, and what a broken server runs instead. */
export type Instead = readonly (readonly [right: string, wrong: string])[]

export interface Machine {
  server(instead?: Instead): Redis
  close(): void
}

export async function startMachine(): Promise<Machine> {
  const lua = await new LuaFactory().createEngine({ injectObjects: false, enableProxy: false })
  await lua.doString(server)
  const { address, lua: api } = lua.global
  const compiled = new Set<string>()
  /** The driver has few scripts and sends them unchanged, so each is hashed once for all servers. */
  const hashes = new Map<string, string>()
  let last = 0

  /** Avoids the thread and the conversions that the library makes for every call: there are hundreds in a run. */
  function call(name: string, ...args: readonly (string | number)[]): string {
    api.lua_getglobal(address, name)
    for (const arg of args) {
      if (typeof arg === 'number') api.lua_pushinteger(address, BigInt(arg))
      else api.lua_pushstring(address, arg)
    }
    const status = api.lua_pcallk(address, args.length, 1, 0, 0, null)
    const text = api.lua_tolstring(address, -1, null)
    api.lua_settop(address, -2)
    if (status !== 0) throw new SimulationError(`the simulated Redis: ${text}`)
    return text
  }

  function sha1(script: string): string {
    const known = hashes.get(script)
    if (known !== undefined) return known
    const hash = createHash('sha1').update(script).digest('hex')
    hashes.set(script, hash)
    return hash
  }

  function makeServer(instead: Instead = []): Redis {
    const id = ++last
    const known = new Set<string>()
    /** The name under which a script was compiled: the driver requests it by the hash of the correct text. */
    const names = new Map<string, string>()
    call('begin', id)
    const split = (now: number) => [Math.floor(now / 1e6), Math.floor(now % 1e6)] as const

    function scriptHash(how: string, script: string): string {
      if (how === 'EVALSHA') {
        if (!known.has(script)) throw new ServerError('NOSCRIPT No matching script. Please use EVAL.')
        return names.get(script) ?? script
      }
      const sha = sha1(script)
      known.add(sha)
      if (instead.length === 0) {
        if (!compiled.has(sha)) call('compile', sha, script)
        compiled.add(sha)
        return sha
      }
      const broken = instead.reduce((text, [right, wrong]) => text.replaceAll(right, wrong), script)
      const name = broken === script ? sha : `${sha} ${JSON.stringify(instead)}`
      if (!compiled.has(name)) call('compile', name, broken)
      compiled.add(name)
      names.set(sha, name)
      return name
    }

    return {
      listeners: (channel, count) => void call('listeners', id, channel, count),
      run(how, script, keys, args, now) {
        const sha = scriptHash(how, script)
        const [sec, usec] = split(now)
        let text = ''
        for (const key of keys) text += `${key}\x01`
        for (const arg of args) text += `${arg}\x01`
        const answer = JSON.parse(call('run', id, sha, sec, usec, keys.length, text)) as
          | Answer
          | { readonly error: string }
          | { readonly mistake: string }
        if ('mistake' in answer) throw new SimulationError(`the simulated Redis: ${answer.mistake}`)
        if ('error' in answer) throw new ServerError(answer.error)
        return answer
      },
      flush: () => void call('flush', id),
      tell: (info) => void call('tell', id, info),
      save: () => void call('save', id),
      recall: () => void call('recall', id),
      forgetScripts: () => known.clear(),
      busy: (now) => JSON.parse(call('busy', id, ...split(now))) as string[],
      end: () => void call('finish', id),
    }
  }

  return { server: makeServer, close: () => lua.global.close() }
}
