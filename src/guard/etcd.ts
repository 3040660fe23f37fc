/**
 * The token in etcd: one transaction compares it, stores it and carries out the operations. Tokens are kept as text
 * of 16 digits, so that etcd, which compares values byte by byte, compares them as numbers.
 *
 * The driver's own `guardTxn` is stronger where the lock itself is in that etcd: it checks for the lock's queue
 * entry, not for a newer write. This one guards data in etcd by a lock from anywhere.
 */
import { StaleTokenError } from '../core/errors.js'
import { describe } from '../core/name.js'
import { checkFence, type Fence } from './fence.js'
import { checkFetchUrl } from './fetch-url.js'

/** Sends one transaction to the JSON gateway: takes the body of `/v3/kv/txn` and resolves with the reply. */
export type EtcdSend = (body: object) => Promise<object>

export interface EtcdTxn {
  readonly fence: Fence
  /** The key that keeps the newest token, beside what it protects. */
  readonly fenceKey: string
  /** As the gateway takes them, keys and values in base64: `{ request_put: { key, value } }`; not on the fence key. */
  readonly operations: readonly object[]
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
  return async (body) => {
    const response = await send(`${url}/v3/kv/txn`, { method: 'POST', body: JSON.stringify(body) })
    if (!response.ok) throw new Error(`etcd answered ${response.status}: ${await response.text()}`)
    return (await response.json()) as object
  }
}

/**
 * Carries out operations unless the fence key has seen a newer token. Resolves with their responses.
 * @throws StaleTokenError when a newer token was there, and then nothing was done; LeaseLostError; what `send` throws
 */
export async function guardedTxn(
  send: EtcdSend,
  { fence, fenceKey, operations }: EtcdTxn,
): Promise<readonly object[]> {
  const { name, token } = checkFence(fence)
  const key = base64(fenceKey)
  const done = [{ request_put: { key, value: base64(digits(token)) } }, ...operations]
  const reply = (await send({
    compare: [
      { key, target: 'VALUE', result: 'LESS', value: base64(digits(token + 1)) },
      // An empty value is less than any token; '/' is the character before '0'.
      { key, target: 'VALUE', result: 'GREATER', value: base64('/') },
    ],
    success: done,
    // To etcd a missing key is not less than any value; the same transaction checks for it separately.
    failure: [
      {
        request_txn: {
          compare: [{ key, target: 'CREATE', result: 'EQUAL', create_revision: '0' }],
          success: done,
          failure: [{ request_range: { key } }],
        },
      },
    ],
  })) as Reply
  const deciding = reply.succeeded === true ? reply : reply.responses?.[0]?.response_txn
  if (deciding?.succeeded === true) return deciding.responses?.slice(1) ?? []
  const there = deciding?.responses?.[0]?.response_range?.kvs?.[0]
  // The gateway leaves out an empty value.
  throw new StaleTokenError(name, token, there && tokenIn(text(there.value ?? ''), fenceKey))
}

/** Compared as text, "7" is newer than "0000000000000008". */
function tokenIn(found: string, fenceKey: string): number {
  if (/^\d{16}$/.test(found)) return Number(found)
  const what = found.trim() === '' ? 'is empty' : `has ${describe(found)}`
  throw new TypeError(
    `${fenceKey} ${what} where the newest token belongs; write that token there as 16 digits, such as ${digits(1234)} for 1234, or 0 if there was none`,
  )
}

const digits = (token: number) => String(token).padStart(16, '0')
const base64 = (value: string) => Buffer.from(value).toString('base64')
const text = (value: string) => Buffer.from(value, 'base64').toString()
