// Each version of `@grpc/grpc-js` that the package says it works with, loaded when a test opens it.
import type { EtcdOptions } from '../../../../src/drivers/etcd/index.js'

export interface GrpcVersion {
  readonly version: string
  load(): Promise<NonNullable<EtcdOptions['grpc']>>
}

/** Oldest to newest. */
export const grpcVersions: readonly GrpcVersion[] = [
  { version: '1.9.15', load: () => import('grpc-js-1.9') },
  { version: '1.12.6', load: () => import('grpc-js-1.12') },
  { version: '1.14.7', load: () => import('@grpc/grpc-js') },
]

export function grpcVersionNamed(name: string): GrpcVersion {
  const found = grpcVersions.find(({ version }) => version === name)
  if (found === undefined) throw new Error(`no version '${name}'`)
  return found
}
