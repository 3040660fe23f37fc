/** The requests that the driver makes of one member of the cluster. `gateway.ts` and `grpc/member.ts` send them. */
import type { WatchReply } from './api-types.js'

export type Method =
  | 'range'
  | 'txn'
  | 'deleteRange'
  | 'grant'
  | 'revoke'
  | 'timeToLive'
  | 'keepAlive'
  | 'authenticate'

export interface Reply<T> {
  readonly is: T
  /** The clock reading from before the answered try was sent. */
  readonly sent: number
  /** An earlier try may have been carried out without an answer. */
  readonly repeated: boolean
}

export interface Member {
  /**
   * @param timeout in ms
   * @param login the token of the user, where the cluster requires one
   * @throws NoResponseError when no answer came, or a garbled one; Refusal
   */
  send<T>(method: Method, ask: object, timeout: number, login: string | undefined): Promise<Reply<T>>
  /**
   * Calls `ended` once, when no more changes will be reported; not after the returned function has ended the watch from here.
   * `ended` gets a Refusal if the member refused the watch.
   */
  watch(
    ask: object,
    heard: (reply: WatchReply) => void,
    ended: (error: unknown) => void,
    login: string | undefined,
  ): () => void
  close(): void
}
