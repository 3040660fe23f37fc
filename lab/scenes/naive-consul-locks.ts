/** The lock of Consul's guide, written without failures in mind: a session, a key, and a blocking query. */
import { type At, type Held, resource, type SharedWay, sceneTimeout } from './lock.js'
import { Limits, recordedLock } from './recorded-lock.js'

export interface ConsulWay extends SharedWay {
  write(at: At, value: string, held: Held): Promise<'written' | 'refused'>
}

/** The longest time that a query waits for a change; Consul's default is five minutes. */
const maxQuery = 60

export const naiveSessionLock: ConsulWay = {
  title: 'a session and a key by hand',
  open(at, recorder) {
    const limits = new Limits()
    return {
      take: (name, ttl, wait) =>
        recordedLock(recorder, { name, wait }, async () => {
          const signal = limits.after(wait)
          const session = { TTL: `${ttl}ms`, LockDelay: '0s' }
          const created = await ask(at, 'PUT', '/v1/session/create', { body: JSON.stringify(session) })
          const { ID } = JSON.parse(created.text) as { ID: string }
          const stop = limits.beat(ttl / 3, () => ask(at, 'PUT', `/v1/session/renew/${ID}`))
          const key = lockPath(at.room, name)
          const take = async () =>
            (await ask(at, 'PUT', `/v1/kv/${key}?acquire=${ID}`)).text.trim() === 'true'
          while (!(await take())) {
            if (signal.aborted || !(await news(at, key, signal))) return undefined
          }
          return async () => {
            stop()
            const { text } = await ask(at, 'PUT', `/v1/kv/${key}?release=${ID}`)
            return text.trim()
          }
        }),
      close: async () => limits.end(),
    }
  },
  async write(at, value) {
    await ask(at, 'PUT', `/v1/kv/${at.room}/${resource}`, { body: value })
    return 'written'
  },
}

/** Where both kinds of locks have their key. */
export function lockPath(room: string, name: string): string {
  return `${room}/${encodeURIComponent(name)}/.lock`
}

/** Reads the current state, then waits until it changes. Resolves with false by the signal. */
async function news(at: At, key: string, signal: AbortSignal): Promise<boolean> {
  try {
    const { index } = await ask(at, 'GET', `/v1/kv/${key}`, { signal })
    await ask(at, 'GET', `/v1/kv/${key}?index=${index}&wait=${maxQuery}s`, { signal })
    return true
  } catch (error) {
    if (signal.aborted) return false
    throw error
  }
}

interface More {
  readonly body?: string
  readonly signal?: AbortSignal
}

async function ask(
  { address }: At,
  method: string,
  path: string,
  { body, signal = AbortSignal.timeout(sceneTimeout) }: More = {},
): Promise<{ readonly text: string; readonly index: string }> {
  const response = await fetch(`http://${address}${path}`, {
    method,
    headers: { connection: 'close' },
    signal,
    ...(body !== undefined && { body }),
  })
  const text = await response.text()
  if (response.status >= 500) throw new Error(`${path}: ${response.status} ${text}`)
  return { text, index: response.headers.get('x-consul-index') ?? '0' }
}
