// What etcd and Consul have in common for a test: a process that can be hurt, and an HTTP API that can be asked.
import { readFileSync } from 'node:fs'
import type { WorkFolder } from './places.js'
import { launch, type Program, type Running } from './process.js'

export interface HttpServer extends AsyncDisposable {
  readonly host: string
  /** Of the HTTP API; the same over restarts. */
  readonly port: number
  readonly url: string
  /** Of the present process; throws while the server is down. */
  readonly pid: number
  readonly running: boolean
  log(): string
  kill9(): Promise<void>
  /** Same ports; what it had in memory is gone, what it wrote is there. */
  restart(): Promise<void>
  pause(): void
  resume(): void
  stop(): Promise<void>
}

export const host = '127.0.0.1'

/** Starts the program in its folder, which goes when it is stopped. */
export async function startHttpServer(
  program: Program,
  url: string,
  folder: WorkFolder,
): Promise<HttpServer> {
  let running: Running
  try {
    running = await launch(program)
  } catch (error) {
    await folder.remove()
    throw error
  }
  let stopped: Promise<void> | undefined
  const end = async () => {
    await running.end('SIGKILL')
    await folder.remove()
  }
  const stop = () => (stopped ??= end())
  return {
    host,
    port: Number(new URL(url).port),
    url,
    get pid() {
      if (!running.alive) throw new Error(`${program.name} is down and has no pid`)
      return running.pid
    },
    get running() {
      return running.alive
    },
    log: () => readFileSync(program.log, 'utf8'),
    kill9: () => running.end('SIGKILL'),
    restart: async () => {
      await running.end('SIGKILL')
      running = await launch(program)
    },
    pause: () => running.pause(),
    resume: () => running.resume(),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

interface Ask {
  readonly method?: string
  readonly body?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** 404 is an answer. */
  readonly missing?: boolean
}

/** One request; undefined for 404 where that is an answer. Rejects on other errors. */
export async function ask(
  url: string,
  { method = 'POST', body, signal = AbortSignal.timeout(10_000), missing = false }: Ask,
): Promise<unknown> {
  const response = await fetch(url, {
    method,
    headers: { connection: 'close' },
    signal,
    ...(body !== undefined && { body }),
  })
  const text = await response.text()
  if (missing && response.status === 404) return undefined
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`)
  return text === '' ? undefined : JSON.parse(text)
}
