/** The types used of Consul's HTTP API v1. Values are in base64. */

/** One operation of a transaction. */
export interface Operation {
  readonly KV: {
    readonly Verb:
      | 'delete-tree'
      | 'lock'
      | 'unlock'
      | 'get'
      | 'get-tree'
      | 'set'
      | 'cas'
      | 'delete'
      | 'delete-cas'
      | 'check-index'
      | 'check-not-exists'
      | 'check-session'
    readonly Key: string
    readonly Value?: string
    readonly Session?: string
    readonly Index?: number
    /** The driver writes only one value, which is too large for a JavaScript number: see `lockFlag`. */
    readonly Flags?: typeof lockFlag
  }
}

/**
 * Stands for the flag with which `consul lock` marks its locks: it reports a key without that flag as a conflict. The request body has the
 * number in place of this word.
 */
export const lockFlag = '@lock' as const
const lockFlagValue = '3304740253564472344'

export function encodeBody(operations: readonly Operation[]): string {
  return JSON.stringify(operations).replaceAll(`"Flags":"${lockFlag}"`, `"Flags":${lockFlagValue}`)
}

export interface KeyValue {
  readonly Key: string
  readonly Value: string | null
  readonly Session?: string
  readonly CreateIndex: number
  readonly ModifyIndex: number
}

export interface TxnReply {
  readonly Results?: readonly { readonly KV?: KeyValue }[] | null
  readonly Errors?: readonly { readonly OpIndex: number; readonly What: string }[] | null
}
