/** The types used of etcd's API v3, as its JSON gateway encodes them: keys and values in base64, 64-bit numbers as strings, zeros omitted. */

export interface RangeRequest {
  readonly key: string
  readonly range_end?: string
  readonly limit?: string
  readonly sort_order?: 'ASCEND' | 'DESCEND'
  readonly sort_target?: 'CREATE'
  readonly max_create_revision?: string
  readonly count_only?: boolean
  readonly keys_only?: boolean
}

export interface PutRequest {
  readonly key: string
  readonly value?: string
  readonly lease?: string
  readonly ignore_value?: boolean
  readonly ignore_lease?: boolean
}

/** One comparison in the `compare` list of a transaction. */
export interface Compare {
  readonly key: string
  readonly range_end?: string
  readonly target: 'CREATE' | 'MOD' | 'VERSION' | 'VALUE' | 'LEASE'
  readonly result: 'EQUAL' | 'GREATER' | 'LESS' | 'NOT_EQUAL'
  readonly create_revision?: string
  readonly mod_revision?: string
  readonly version?: string
  readonly value?: string
  readonly lease?: string
}

/** One operation in the `success` or `failure` list of a transaction. */
export interface Operation {
  readonly request_range?: RangeRequest
  readonly request_put?: PutRequest
  readonly request_delete_range?: { readonly key: string; readonly range_end?: string }
}

export interface TxnRequest {
  readonly compare?: readonly Compare[]
  readonly success?: readonly Operation[]
  readonly failure?: readonly Operation[]
}

export interface KeyValue {
  readonly key: string
  readonly value?: string
  readonly create_revision: string
  readonly mod_revision: string
  readonly version?: string
  readonly lease?: string
}

export interface Header {
  readonly revision?: string
  readonly raft_term?: string
}

export interface RangeResponse {
  readonly header?: Header
  readonly kvs?: readonly KeyValue[]
  readonly count?: string
}

export interface OperationResponse {
  readonly response_range?: RangeResponse
  readonly response_put?: { readonly header?: Header }
  readonly response_delete_range?: { readonly header?: Header; readonly deleted?: string }
}

export interface TxnReply {
  readonly header: Header
  readonly succeeded?: boolean
  readonly responses?: readonly OperationResponse[]
}

export interface LeaseReply {
  readonly header?: Header
  readonly ID?: string
  /** Seconds; absent when the lease does not exist. */
  readonly TTL?: string
  readonly grantedTTL?: string
  /** The keys bound to the lease, if requested. */
  readonly keys?: readonly string[]
}

export interface WatchEvent {
  readonly type?: 'DELETE'
  readonly kv: { readonly key: string; readonly value?: string; readonly mod_revision?: string }
}

export interface WatchReply {
  readonly result?: {
    readonly header?: Header
    readonly created?: boolean
    readonly canceled?: boolean
    readonly compact_revision?: string
    readonly cancel_reason?: string
    readonly events?: readonly WatchEvent[]
  }
}
