/**
 * The token in an object store: kept in the object's metadata, compared by the client, and made one step with the
 * write by a conditional put: If-Match on the version that was compared. S3 and compatible stores, Azure Blob, Google
 * Cloud Storage.
 */
import { types } from 'node:util'
import { describe } from '../core/name.js'
import { guardedCommit } from './commit.js'
import { checkKey, type Fence } from './fence.js'
import { drain, HttpAnswer, isHttpAnswer, reportUnknown } from './outcome.js'

/** What a guard needs of an object store: a read that returns the version, and a write that is refused when the version has changed. */
export interface ObjectStore {
  /** `undefined`: there is no such object. `token`: as it was put, if there was one. */
  head(key: string): Promise<{ readonly etag: string; readonly token?: string | undefined } | undefined>
  /** Writes if the object still has this etag or, without one, if there is no object. False: the condition does not hold. */
  put(key: string, body: string | Uint8Array, token: string, ifMatch: string | undefined): Promise<boolean>
}

export interface GuardedPut {
  readonly key: string
  readonly body: string | Uint8Array
  readonly fence: Fence
  /** How often to read and write before giving up; each failure means that somebody else wrote meanwhile. @default 10 */
  readonly attempts?: number
}

/**
 * Puts an object unless it has seen a newer token. Deleting objects forgets their tokens: put an empty one instead.
 * @throws StaleTokenError; VersionConflictError after the last attempt; LeaseLostError; what the store throws, `httpObjects` a BackendError
 * with `outcome: 'unknown'` when the reply to the put was lost, so that it may or may not have been applied
 */
export async function guardedPut(
  store: ObjectStore,
  { key, body, fence, attempts }: GuardedPut,
): Promise<void> {
  checkKey(key, 'key')
  if (typeof body !== 'string' && !types.isUint8Array(body))
    throw new TypeError(
      `body must be a string or a Uint8Array, got ${describe(body)}; give for example JSON.stringify(value)`,
    )
  return guardedCommit({
    name: key,
    fence,
    ...(attempts !== undefined && { attempts }),
    async read() {
      const there = await store.head(key)
      return there && { token: there.token, version: there.etag }
    },
    write: (token, seen) => store.put(key, body, token, seen),
  })
}

/**
 * An object store behind plain HTTP with ETag, If-Match and If-None-Match, the token in its own header.
 * @param base URL that keys are appended to, percent-encoded
 * @param send `fetch`, or a function that signs requests
 * @param tokenHeader S3's metadata header by default
 */
export function httpObjects(
  base: string,
  send: (url: string, init: RequestInit) => Promise<Response> = fetch,
  tokenHeader = 'x-amz-meta-holdfast-token',
): ObjectStore {
  const urlOf = (key: string) => {
    // A URL resolves these as path steps before it is sent.
    if (key === '' || key === '.' || key === '..')
      throw new RangeError(`${describe(key)} is not a valid object key; choose another`)
    return base + encodeURIComponent(key)
  }
  return {
    async head(key) {
      const response = await send(urlOf(key), { method: 'HEAD' })
      if (response.status === 404) return undefined
      if (!response.ok) throw new Error(`HEAD ${key} failed with status ${response.status}`)
      const etag = response.headers.get('etag')
      if (etag === null) throw new Error(`${key} came without an ETag: this store has no conditional writes`)
      return { etag, token: response.headers.get(tokenHeader) ?? undefined }
    },
    async put(key, body, token, ifMatch) {
      const condition = ifMatch === undefined ? { 'if-none-match': '*' } : { 'if-match': ifMatch }
      const headers: Record<string, string> = { ...condition, [tokenHeader]: token }
      const url = urlOf(key)
      return reportUnknown('objects', `the put of ${key} with token ${token}`, isHttpAnswer, async () => {
        const response = await send(url, { method: 'PUT', body: body as string, headers })
        await drain(response)
        const { ok, status } = response
        // 409: S3 had two conditional writes of one object at the same time.
        if (status === 412 || status === 409) return false
        if (ok) return true
        const message = `PUT ${key} failed with status ${status}`
        throw status < 500 ? new HttpAnswer(message) : new Error(message)
      })
    },
  }
}
