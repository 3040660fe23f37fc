/** What a failed call means: the member refused it, or its outcome is unknown. */
import { NoResponseError } from '../../kit/http.js'
import { systemErrorIn } from '../../kit/system-error.js'
import { Refusal } from '../failure.js'
import type { GrpcError } from './client.js'

/** The connection broke under the call: it says nothing about the member's health, and the call is sent once more. */
export class DroppedError extends NoResponseError {}

/** The client library says this of calls that it has not sent. If its words change, such a call only counts as one that may have been sent. */
const neverSent =
  /^(?:No connection established|Name resolution failed|Channel closed before call started|Failed to start HTTP\/2 stream)/
/** Cancelled, deadline exceeded, internal, unavailable: the library uses these, too, when the connection breaks. */
const perhapsLocal: readonly number[] = [1, 4, 13, 14]
const unimplemented = 12
const unavailable = 14

export const lateError = (host: string, timeout: number): NoResponseError =>
  new NoResponseError(`${host} gave no answer within ${Math.round(timeout)} ms`, true)

export function toError(host: string, error: GrpcError): NoResponseError | Refusal {
  const { code, details } = error
  if (code === unimplemented)
    return new Refusal(code, `it has no API v3 over gRPC (${details}); etcd 3.4 or newer is needed`)
  // etcd's own errors say so.
  if (/^etcdserver:/.test(details) || !perhapsLocal.includes(code)) return new Refusal(code, details)
  const message = `${host} ${details}`
  const cause = systemErrorIn(details, error) ?? error
  if (neverSent.test(details)) return new NoResponseError(message, false, cause)
  return code === unavailable
    ? new DroppedError(message, true, cause)
    : new NoResponseError(message, true, cause)
}

export const garbledError = (why: unknown): NoResponseError =>
  new NoResponseError(`the answer was garbled: ${why instanceof Error ? why.message : why}`, true, why)
