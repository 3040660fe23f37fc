/** The floor of a call over gRPC: the client package as it is, and messages by protobufjs. Answers are not read. */
import * as grpc from '@grpc/grpc-js'
import protobuf from 'protobufjs'

/** The used part of etcd's API. */
const { root } = protobuf.parse(
  `
  syntax = "proto3";
  message RangeRequest {
    enum SortOrder { NONE = 0; ASCEND = 1; DESCEND = 2; }
    enum SortTarget { KEY = 0; VERSION = 1; CREATE = 2; }
    bytes key = 1; bytes range_end = 2; int64 limit = 3; SortOrder sort_order = 5; SortTarget sort_target = 6;
  }
  message PutRequest { bytes key = 1; bytes value = 2; int64 lease = 3; }
  message DeleteRangeRequest { bytes key = 1; }
  message RequestOp { RangeRequest request_range = 1; PutRequest request_put = 2; }
  message Compare {
    enum Result { EQUAL = 0; }
    enum Target { VERSION = 0; CREATE = 1; }
    Result result = 1; Target target = 2; bytes key = 3; int64 create_revision = 5;
  }
  message TxnRequest { repeated Compare compare = 1; repeated RequestOp success = 2; }`,
  { keepCase: true },
)
interface Call {
  readonly path: string
  readonly ask: protobuf.Type
}

const calls: Readonly<Record<'txn' | 'deleteRange', Call>> = {
  txn: { path: '/etcdserverpb.KV/Txn', ask: root.lookupType('TxnRequest') },
  deleteRange: { path: '/etcdserverpb.KV/DeleteRange', ask: root.lookupType('DeleteRangeRequest') },
}

const asIs = (bytes: Buffer) => bytes

export class BareGrpc {
  readonly #client: grpc.Client

  constructor(port: number) {
    this.#client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure())
  }

  /** @param body as over the gateway: bytes in base64 */
  send(method: 'txn' | 'deleteRange', body: object): Promise<unknown> {
    const { path, ask } = calls[method]
    const bytes = Buffer.from(ask.encode(ask.fromObject(body)).finish())
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(path, asIs, asIs, bytes, (error, answer) =>
        error === null ? resolve(answer) : reject(error),
      )
    })
  }

  close(): void {
    this.#client.close()
  }
}
