/** A process of the operating system that takes a lock, so that it can be killed or paused at the worst moment. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { RedisServer } from '../../test/support/servers/redis.js'
import { until } from '../../test/support/until.js'
import { patience } from './environment.js'
import type { Recipe } from './lock.js'

/** The orders of the child: its role, its lock, the ports, the duration. */
export interface Part {
  readonly role: 'crash' | 'pause'
  readonly recipe: string
  readonly ports: readonly number[]
  readonly ttl: number
}

export interface Holder extends AsyncDisposable {
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** Resolves as the promise does; rejects when the process ends before. */
  unlessDead<T>(promise: Promise<T>): Promise<T>
  /** Resolves when it has stopped itself. */
  standsStill(): Promise<void>
  /** SIGCONT; resolves with its last output. */
  goOn(): Promise<string>
}

/** @param home what runs in a server's folder ends with the server, also when it is paused and nobody is left to kill it */
export function startHolder(
  role: Part['role'],
  { title: recipe }: Recipe,
  home: RedisServer,
  ports: readonly number[],
  ttl: number,
): Holder {
  const part: Part = { role, recipe, ports, ttl }
  const child = fork(new URL('./holder-child.js', import.meta.url), [JSON.stringify(part)], {
    cwd: home.folder,
  })
  // Not 'exit', which may come before its last output.
  const gone = once(child, 'close')
  const early = () => Promise.reject(new Error(`the holder ended too early, with ${child.exitCode}`))
  const kill = async () => {
    child.kill('SIGKILL')
    await gone
  }
  const unlessDead = <T>(promise: Promise<T>): Promise<T> => Promise.race([promise, gone.then(early)])
  const stopped = () => /^\d+ \(.*\) T/s.test(readFileSync(`/proc/${child.pid}/stat`, 'utf8'))
  return {
    kill,
    unlessDead,
    async standsStill() {
      await unlessDead(until(stopped, { within: patience, what: 'the holder to stand still' }))
    },
    async goOn() {
      const said = once(child, 'message')
      child.kill('SIGCONT')
      const [answer] = await unlessDead(said)
      return String(answer)
    },
    [Symbol.asyncDispose]: kill,
  }
}
