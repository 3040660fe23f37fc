/** The session of one process with an ensemble, as the driver sees it. Made by `createSession`. */
import type { TlsOptions } from '../../kit/http.js'
import type { Address } from '../options.js'
import type { Request, Watch } from './protocol.js'

export interface SessionSettings {
  readonly servers: readonly Address[]
  readonly sessionTimeout: number
  readonly tickTime: number
  readonly tls?: TlsOptions | undefined
  readonly auth: readonly { readonly scheme: string; readonly credential: string }[]
}

export interface Session {
  readonly connected: boolean
  /** 0n: no session yet, or it has ended. */
  readonly id: bigint
  /** The timeout granted by the server, in ms; before that, the one to request. */
  readonly timeout: number
  /** The clock reading until which the server cannot have ended the session. */
  readonly validUntil: number
  /** How far `validUntil` lies in the future at least while the servers answer, in ms. */
  readonly maxLeaseTtl: number
  /** Why the last connection failed. */
  readonly failure: Error | undefined
  /** Requests sent so far, heartbeats not counted. */
  readonly requests: number
  /** Watches that fired so far. */
  readonly events: number
  /** @throws ZookeeperError as a rejection: refused, or `connectionLoss`, where the request may have been carried out or not */
  call<T>(request: Request<T>): Promise<T>
  /** Resolves once connected; connects if need be. Rejects with the signal's reason, when closed, or when the server refuses our login. */
  ready(signal: AbortSignal): Promise<void>
  /**
   * Resolves once the leader has answered a message sent at `since` or later, or at once if it already has. Resolves with the time that message
   * was sent. Rejects as `call` does, or with the signal's reason.
   */
  prove(signal: AbortSignal, since: number): Promise<number>
  drop(watch: Watch): void
  /** For a caller that waits: the connection keeps the process alive until the returned function is called. */
  keepAlive(): () => void
  /** Ends the session on the server, and closes. */
  close(): Promise<void>
}

export interface SessionHooks {
  /** Connected again with the same session, before any other caller may use it. */
  onResumed(): void
  onSuspended(): void
  /** A connection broke or never came up. */
  onFailure(error: Error): void
  /** The server has ended the session. */
  onExpired(): void
}
