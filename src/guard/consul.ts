/** The token in Consul: kept in its own key, whose index is checked in the same transaction that writes. */
import { describe } from '../core/name.js'
import { guardedCommit } from './commit.js'
import { checkKey, type Fence } from './fence.js'
import { checkFetchUrl } from './fetch-url.js'
import { drain, HttpAnswer, isHttpAnswer, refusedOverHttp, reportUnknown } from './outcome.js'

export interface ConsulGuardOptions {
  /** `http://127.0.0.1:8500` */
  readonly url: string
  /** ACL token. */
  readonly token?: string
  /** @default fetch */
  readonly send?: (url: string, init: RequestInit) => Promise<Response>
}

export interface ConsulTxn {
  readonly fence: Fence
  /** The key that keeps the newest token, beside what it protects. */
  readonly fenceKey: string
  /** Operations on keys as `/v1/txn` takes them, values in base64: `{ Verb: 'set', Key: 'stock/7', Value: … }`. At most 63. */
  readonly operations: readonly object[]
  /** @default 10 */
  readonly attempts?: number
}

/**
 * Carries out operations unless the fence key has seen a newer token. @throws StaleTokenError; VersionConflictError
 * after the last attempt; LeaseLostError; BackendError with `outcome: 'unknown'` when the reply was lost, so that they may or may not have
 * been carried out; Error when Consul refuses
 */
export async function guardedConsulTxn(
  { url, token: acl, send = fetch }: ConsulGuardOptions,
  { fence, fenceKey, operations, attempts }: ConsulTxn,
): Promise<void> {
  if (typeof url !== 'string' || !/^https?:\/\//.test(url))
    throw new TypeError(`url must be like 'http://127.0.0.1:8500', got ${describe(url)}`)
  if (acl !== undefined && typeof acl !== 'string')
    throw new TypeError(`token must be the text of an ACL token, got ${describe(acl)}`)
  if (typeof send !== 'function')
    throw new TypeError(`send must be a function like fetch, got ${describe(send)}`)
  if (send === fetch) checkFetchUrl(url, 'http://127.0.0.1:8500')
  const path = encodePath(checkKey(fenceKey, 'fenceKey'))
  const headers: Record<string, string> = acl === undefined ? {} : { 'x-consul-token': acl }
  return guardedCommit<number>({
    name: fenceKey,
    fence,
    ...(attempts !== undefined && { attempts }),
    async read() {
      const response = await send(`${url}/v1/kv/${path}?consistent`, { headers })
      if (response.status === 404) return undefined
      if (!response.ok) throw await refusedOverHttp('Consul', response)
      const [found] = (await response.json()) as { Value: string | null; ModifyIndex: number }[]
      // Consul gives null for an empty value.
      return (
        found && { token: Buffer.from(found.Value ?? '', 'base64').toString(), version: found.ModifyIndex }
      )
    },
    write(token, seen) {
      // Index 0: only if there is no such key.
      const Value = Buffer.from(token).toString('base64')
      const first = { KV: { Verb: 'cas', Key: fenceKey, Value, Index: seen ?? 0 } }
      const body = JSON.stringify([first, ...operations.map((KV) => ({ KV }))])
      const what = `the transaction on ${fenceKey} with token ${token}`
      return reportUnknown('consul', what, isHttpAnswer, async () =>
        wasCarriedOut(await send(`${url}/v1/txn`, { method: 'PUT', headers, body })),
      )
    },
  })
}

/** False: another index. @throws HttpAnswer for an operation of the user that was refused */
async function wasCarriedOut(response: Response): Promise<boolean> {
  if (response.ok) {
    await drain(response)
    return true
  }
  if (response.status !== 409) throw await refusedOverHttp('Consul', response)
  const { Errors } = (await response.json()) as { Errors: { OpIndex: number; What: string }[] }
  const own = Errors.find(({ OpIndex }) => OpIndex > 0)
  if (own === undefined) return false
  throw new HttpAnswer(`operation ${own.OpIndex - 1} was refused by Consul: ${own.What}`)
}

/** @throws RangeError for dot segments, which a URL resolves before it is sent: the read would use another key than the write */
function encodePath(key: string): string {
  const parts = key.split('/')
  if (parts.some((part) => part === '.' || part === '..'))
    throw new RangeError(
      `fenceKey ${describe(key)} is not a key that Consul accepts in a URL: it has the segment '.' or '..'`,
    )
  return parts.map(encodeURIComponent).join('/')
}
