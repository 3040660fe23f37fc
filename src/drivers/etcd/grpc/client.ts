/** The used part of the package `@grpc/grpc-js`, 1.9.15 or newer, by its shape: holdfast does not depend on it. */
import type { SecureContext } from 'node:tls'
import { describe } from '../../../core/name.js'

/** The module itself: `import * as grpc from '@grpc/grpc-js'`. */
export interface GrpcModule {
  readonly Client: new (address: string, credentials: never, options?: never) => GrpcClient
  readonly Metadata: new () => GrpcMetadata
  readonly credentials: {
    createInsecure(): unknown
    createFromSecureContext(context: SecureContext, verify?: never): unknown
  }
}

export interface GrpcMetadata {
  set(key: string, value: string): void
}

export interface GrpcClient {
  makeUnaryRequest(
    path: string,
    serialize: (bytes: Buffer) => Buffer,
    deserialize: (bytes: Buffer) => Buffer,
    argument: Buffer,
    metadata: never,
    callback: (error: GrpcError | null, value?: Buffer) => void,
  ): { cancel(): void }
  makeBidiStreamRequest(
    path: string,
    serialize: (bytes: Buffer) => Buffer,
    deserialize: (bytes: Buffer) => Buffer,
    metadata: never,
  ): GrpcStream
  close(): void
}

export interface GrpcStream {
  write(bytes: Buffer): unknown
  end(): unknown
  cancel(): void
  on(event: 'data', listener: (bytes: Buffer) => void): unknown
  on(event: 'error', listener: (error: GrpcError) => void): unknown
  on(event: 'end', listener: () => void): unknown
}

export interface GrpcError extends Error {
  readonly code: number
  readonly details: string
}

/** @throws TypeError that names the value given */
export function checkModule(given: unknown): void {
  const { Client, Metadata, credentials } = (given ?? {}) as Partial<GrpcModule>
  const works =
    typeof Client === 'function' &&
    typeof Metadata === 'function' &&
    typeof credentials?.createFromSecureContext === 'function'
  if (!works)
    throw new TypeError(
      `etcd: grpc takes the package itself, 1.9.15 or newer: import * as grpc from '@grpc/grpc-js'; got ${describe(given)}`,
    )
}
