/**
 * The token in etcd: one transaction compares it, stores it and carries out the operations. etcd orders values byte by
 * byte, as text, so it is asked only whether the fence key has exactly what was read there and compared here; the
 * first transaction of a lease on a key reads it. Tokens are written as 16 digits, which older versions compare as text.
 *
 * The driver's own `guardTxn` is stronger where the lock itself is in that etcd: it checks for the lock's queue
 * entry, not for a newer write. This one guards data in etcd by a lock from anywhere.
 */
import { StaleTokenError, VersionConflictError } from '../core/errors.js'
import { checkAttempts } from './commit.js'
import { checkFence, checkKey, type Fence, tokenFrom } from './fence.js'
import { checkFetchUrl } from './fetch-url.js'
import { isHttpAnswer, refusedOverHttp, reportUnknown } from './outcome.js'

/** Sends one transaction to the JSON gateway: takes the body of `/v3/kv/txn` and resolves with the reply. */
export type EtcdSend = (body: object) => Promise<object>

export interface EtcdTxn {
  readonly fence: Fence
  /** The key that keeps the newest token, beside what it protects. */
  readonly fenceKey: string
  /** As the gateway takes them, keys and values in base64: `{ request_put: { key, value } }`; not on the fence key. */
  readonly operations: readonly object[]
  /**
   * How often to send the transaction before giving up. The first one of a lease on a key is sent twice; each further time means that an
   * older token was admitted meanwhile. @default 100
   */
  readonly attempts?: number
}

interface Reply {
  readonly succeeded?: boolean
  readonly responses?: readonly {
    readonly response_txn?: Reply
    readonly response_range?: { readonly kvs?: readonly { readonly value?: string }[] }
  }[]
}

/** For `guardedTxn`. @param url of a member: `http://10.0.0.1:2379` */
export function etcdGateway(
  url: string,
  send: (url: string, init: RequestInit) => Promise<Response> = fetch,
): EtcdSend {
  if (send === fetch) checkFetchUrl(url, 'http://10.0.0.1:2379')
  return (body) => {
    const init = { method: 'POST', body: JSON.stringify(body) }
    return reportUnknown('etcd', 'the transaction', isHttpAnswer, async () => {
      const response = await send(`${url}/v3/kv/txn`, init)
      if (!response.ok) throw await refusedOverHttp('etcd', response)
      return (await response.json()) as object
    })
  }
}

/**
 * Carries out operations unless the fence key has seen a newer token. Resolves with their responses.
 * @throws StaleTokenError when a newer token was there, TypeError when it was no token, VersionConflictError after the last attempt: nothing
 * was done; LeaseLostError; what `send` throws, from `etcdGateway` BackendError with `outcome: 'unknown'` when the reply was lost, so that
 * they may or may not have been done
 */
export async function guardedTxn(
  send: EtcdSend,
  { fence, fenceKey, operations, attempts = 100 }: EtcdTxn,
): Promise<readonly object[]> {
  checkAttempts(attempts)
  const key = base64(checkKey(fenceKey, 'fenceKey'))
  const own = base64(digits(checkFence(fence).token))
  const success = [{ request_put: { key, value: own } }, ...operations]
  // To etcd a missing key equals no value; the same transaction checks for it separately.
  const compare = [{ key, target: 'CREATE', result: 'EQUAL', create_revision: '0' }]
  const failure = [{ request_txn: { compare, success, failure: [{ request_range: { key } }] } }]
  let seen = own
  for (let attempt = 0; attempt < attempts; attempt++) {
    const { name, token } = checkFence(fence)
    const equal = [{ key, target: 'VALUE', result: 'EQUAL', value: seen }]
    const reply = (await send({ compare: equal, success, failure })) as Reply
    const deciding = reply.succeeded === true ? reply : reply.responses?.[0]?.response_txn
    if (deciding?.succeeded === true) return deciding.responses?.slice(1) ?? []
    const there = deciding?.responses?.[0]?.response_range?.kvs?.[0]
    if (there === undefined)
      throw new TypeError(
        `${fenceKey}: the reply to the transaction says neither that it was carried out nor what the key has; whether it was is unknown. Is it the JSON gateway of etcd that replies?`,
      )
    // The gateway leaves out an empty value.
    seen = there.value ?? ''
    const newest = tokenFrom(Buffer.from(seen, 'base64'), fenceKey)
    if (newest > token) throw new StaleTokenError(name, token, newest)
  }
  throw new VersionConflictError(fenceKey, attempts)
}

const digits = (token: number) => String(token).padStart(16, '0')
const base64 = (value: string) => Buffer.from(value).toString('base64')
