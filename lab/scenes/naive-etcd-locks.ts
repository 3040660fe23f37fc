/** A queue in etcd, written without failures in mind: a key with a lease, and a watch on the key before it. */
import { type At, type SharedWay, sceneTimeout } from './lock.js'
import { Limits, recordedLock } from './recorded-lock.js'

interface KeyValue {
  readonly key: string
  readonly create_revision: string
}

interface Range {
  readonly header: { readonly revision: string }
  readonly kvs?: readonly KeyValue[]
}

export const naiveQueueEtcd: SharedWay = {
  title: 'a key with a lease by hand',
  open(at, recorder) {
    const limits = new Limits()
    return {
      take: (name, ttl, wait) =>
        recordedLock(recorder, { name, wait }, async () => {
          const { ID } = (await ask(at, '/v3/lease/grant', { TTL: String(ttl / 1000) })) as { ID: string }
          const stop = limits.beat(ttl / 3, () => ask(at, '/v3/lease/keepalive', { ID }))
          const key = base64(`${at.room}/${name}/${ID}`)
          await ask(at, '/v3/kv/put', { key, lease: ID })
          if (!(await first(at, name, key, limits.after(wait)))) return undefined
          return async () => {
            stop()
            await ask(at, '/v3/lease/revoke', { ID })
          }
        }),
      close: async () => limits.end(),
    }
  },
}

/** Resolves with true once nobody is before `own`; with false by the signal. */
async function first(at: At, name: string, own: string, signal: AbortSignal): Promise<boolean> {
  for (;;) {
    const { header, kvs = [] } = (await ask(at, '/v3/kv/range', {
      ...everyPlace(at, name),
      sort_target: 'CREATE',
      sort_order: 'ASCEND',
    })) as unknown as Range
    const before = kvs[kvs.findIndex(({ key }) => key === own) - 1]
    if (before === undefined) return true
    if (signal.aborted || !(await gone(at, before.key, Number(header.revision) + 1, signal))) return false
  }
}

async function gone(at: At, key: string, from: number, signal: AbortSignal): Promise<boolean> {
  const create_request = { key, start_revision: String(from) }
  try {
    const { body } = await post(at, '/v3/watch', { create_request }, signal)
    for await (const bytes of body ?? []) if (Buffer.from(bytes).includes('"DELETE"')) return true
    // The server sends no more events. This code waits for one anyway.
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  } catch (error) {
    if (!signal.aborted) throw error
  }
  return false
}

/** All that are queued for a name, ours and those by hand. */
export function everyPlace(
  { room }: Pick<At, 'room'>,
  name: string,
): { readonly key: string; readonly range_end: string } {
  return { key: base64(`${room}/${name}/`), range_end: base64(`${room}/${name}0`) }
}

async function ask(at: At, path: string, body: object): Promise<Record<string, unknown>> {
  return (await (await post(at, path, body)).json()) as Record<string, unknown>
}

function post({ address }: At, path: string, body: object, signal?: AbortSignal): Promise<Response> {
  return fetch(`http://${address}${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { connection: 'close' },
    signal: signal ?? AbortSignal.timeout(sceneTimeout),
  })
}

const base64 = (text: string) => Buffer.from(text).toString('base64')
