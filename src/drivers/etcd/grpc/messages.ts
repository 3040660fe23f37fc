/**
 * The messages of etcd's API v3 that the driver uses, and what a user's own transaction may have.
 * https://etcd.io/docs/v3.5/dev-guide/api_reference_v3/
 */
import type { Method } from '../member.js'
import { type Field, Message } from './codec.js'

type Type = Field['type']

const one = (number: number, type: Type): Field => ({ number, type, repeated: false })
const many = (number: number, type: Type): Field => ({ number, type, repeated: true })
const message = (name: string, fields: Readonly<Record<string, Field>>) => new Message(name, () => fields)

const header = message('ResponseHeader', {
  cluster_id: one(1, 'uint64'),
  member_id: one(2, 'uint64'),
  revision: one(3, 'int64'),
  raft_term: one(4, 'uint64'),
})
const headed = { header: one(1, header) }

const keyValue = message('KeyValue', {
  key: one(1, 'bytes'),
  create_revision: one(2, 'int64'),
  mod_revision: one(3, 'int64'),
  version: one(4, 'int64'),
  value: one(5, 'bytes'),
  lease: one(6, 'int64'),
})

const rangeAsk = message('RangeRequest', {
  key: one(1, 'bytes'),
  range_end: one(2, 'bytes'),
  limit: one(3, 'int64'),
  revision: one(4, 'int64'),
  sort_order: one(5, ['NONE', 'ASCEND', 'DESCEND']),
  sort_target: one(6, ['KEY', 'VERSION', 'CREATE', 'MOD', 'VALUE']),
  serializable: one(7, 'bool'),
  keys_only: one(8, 'bool'),
  count_only: one(9, 'bool'),
  min_mod_revision: one(10, 'int64'),
  max_mod_revision: one(11, 'int64'),
  min_create_revision: one(12, 'int64'),
  max_create_revision: one(13, 'int64'),
})
const rangeReply = message('RangeResponse', {
  ...headed,
  kvs: many(2, keyValue),
  more: one(3, 'bool'),
  count: one(4, 'int64'),
})

const putAsk = message('PutRequest', {
  key: one(1, 'bytes'),
  value: one(2, 'bytes'),
  lease: one(3, 'int64'),
  prev_kv: one(4, 'bool'),
  ignore_value: one(5, 'bool'),
  ignore_lease: one(6, 'bool'),
})
const putReply = message('PutResponse', { ...headed, prev_kv: one(2, keyValue) })

const deleteAsk = message('DeleteRangeRequest', {
  key: one(1, 'bytes'),
  range_end: one(2, 'bytes'),
  prev_kv: one(3, 'bool'),
})
const deleteReply = message('DeleteRangeResponse', {
  ...headed,
  deleted: one(2, 'int64'),
  prev_kvs: many(3, keyValue),
})

const compare = message('Compare', {
  result: one(1, ['EQUAL', 'GREATER', 'LESS', 'NOT_EQUAL']),
  target: one(2, ['VERSION', 'CREATE', 'MOD', 'VALUE', 'LEASE']),
  key: one(3, 'bytes'),
  version: one(4, 'int64'),
  create_revision: one(5, 'int64'),
  mod_revision: one(6, 'int64'),
  value: one(7, 'bytes'),
  lease: one(8, 'int64'),
  range_end: one(64, 'bytes'),
})

const txnAsk: Message = new Message('TxnRequest', () => ({
  compare: many(1, compare),
  success: many(2, operation),
  failure: many(3, operation),
}))
const operation = new Message('RequestOp', () => ({
  request_range: one(1, rangeAsk),
  request_put: one(2, putAsk),
  request_delete_range: one(3, deleteAsk),
  request_txn: one(4, txnAsk),
}))
const txnReply: Message = new Message('TxnResponse', () => ({
  ...headed,
  succeeded: one(2, 'bool'),
  responses: many(3, operationReply),
}))
const operationReply = new Message('ResponseOp', () => ({
  response_range: one(1, rangeReply),
  response_put: one(2, putReply),
  response_delete_range: one(3, deleteReply),
  response_txn: one(4, txnReply),
}))

const leaseReply = message('LeaseTimeToLiveResponse', {
  ...headed,
  ID: one(2, 'int64'),
  TTL: one(3, 'int64'),
  grantedTTL: one(4, 'int64'),
  keys: many(5, 'bytes'),
})
/** `LeaseGrantResponse` and `LeaseKeepAliveResponse` begin alike. */
const shortLeaseReply = message('LeaseGrantResponse', {
  ...headed,
  ID: one(2, 'int64'),
  TTL: one(3, 'int64'),
  error: one(4, 'string'),
})
const idAsk = message('LeaseRevokeRequest', { ID: one(1, 'int64') })

export interface Call {
  readonly path: string
  readonly ask: Message
  readonly reply: Message
}

export const calls: Readonly<Record<Method, Call>> = {
  range: { path: '/etcdserverpb.KV/Range', ask: rangeAsk, reply: rangeReply },
  txn: { path: '/etcdserverpb.KV/Txn', ask: txnAsk, reply: txnReply },
  deleteRange: { path: '/etcdserverpb.KV/DeleteRange', ask: deleteAsk, reply: deleteReply },
  grant: {
    path: '/etcdserverpb.Lease/LeaseGrant',
    ask: message('LeaseGrantRequest', { TTL: one(1, 'int64'), ID: one(2, 'int64') }),
    reply: shortLeaseReply,
  },
  revoke: {
    path: '/etcdserverpb.Lease/LeaseRevoke',
    ask: idAsk,
    reply: message('LeaseRevokeResponse', headed),
  },
  timeToLive: {
    path: '/etcdserverpb.Lease/LeaseTimeToLive',
    ask: message('LeaseTimeToLiveRequest', { ID: one(1, 'int64'), keys: one(2, 'bool') }),
    reply: leaseReply,
  },
  keepAlive: { path: '/etcdserverpb.Lease/LeaseKeepAlive', ask: idAsk, reply: shortLeaseReply },
  authenticate: {
    path: '/etcdserverpb.Auth/Authenticate',
    ask: message('AuthenticateRequest', { name: one(1, 'string'), password: one(2, 'string') }),
    reply: message('AuthenticateResponse', { ...headed, token: one(2, 'string') }),
  },
}

export const watchCall: Call = {
  path: '/etcdserverpb.Watch/Watch',
  ask: message('WatchRequest', {
    create_request: one(
      1,
      message('WatchCreateRequest', {
        key: one(1, 'bytes'),
        range_end: one(2, 'bytes'),
        start_revision: one(3, 'int64'),
        filters: many(5, ['NOPUT', 'NODELETE']),
        watch_id: one(7, 'int64'),
      }),
    ),
    cancel_request: one(2, message('WatchCancelRequest', { watch_id: one(1, 'int64') })),
  }),
  reply: message('WatchResponse', {
    ...headed,
    watch_id: one(2, 'int64'),
    created: one(3, 'bool'),
    canceled: one(4, 'bool'),
    compact_revision: one(5, 'int64'),
    cancel_reason: one(6, 'string'),
    events: many(
      11,
      message('Event', { type: one(1, ['PUT', 'DELETE']), kv: one(2, keyValue), prev_kv: one(3, keyValue) }),
    ),
  }),
}
