/**
 * Locks in etcd: one transaction enters a FIFO queue and reads the entries ahead, one request releases. A waiter watches only
 * the entry before its own.
 *
 * ```ts
 * import { createLocks } from 'holdfast'
 * import { etcd } from 'holdfast/etcd'
 *
 * const locks = createLocks(etcd({ endpoints: ['10.0.0.1:2379', '10.0.0.2:2379', '10.0.0.3:2379'] }))
 * await locks.mutex('account:42').run(async (lease) => console.log(lease.token))
 * ```
 * @module
 */

export type { TlsOptions } from '../kit/http.js'
export type { LeaseKey } from '../kit/lease-index.js'
export type {
  Compare,
  Header,
  KeyValue,
  Operation,
  OperationResponse,
  PutRequest,
  RangeRequest,
  RangeResponse,
  TxnRequest,
} from './api-types.js'
export { type EtcdFactory, type EtcdTraits, etcd } from './driver.js'
export type { GrpcClient, GrpcError, GrpcMetadata, GrpcModule, GrpcStream } from './grpc/client.js'
export type { GuardTxnResult } from './guard.js'
export type { EtcdOptions } from './options.js'
