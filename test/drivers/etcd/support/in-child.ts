// What a child process of the conformance suite calls to get a driver on the same servers.
import * as grpc from '@grpc/grpc-js'
import type { DriverFactory } from '../../../../src/core/driver.js'
import { type EtcdOptions, etcd } from '../../../../src/drivers/etcd/index.js'
import { grpcVersionNamed } from './grpc-versions.js'

export function make(endpoints: readonly string[], more: Omit<EtcdOptions, 'endpoints'> = {}): DriverFactory {
  return etcd({ endpoints, ...more })
}

export function makeOverGrpc(
  endpoints: readonly string[],
  more: Omit<EtcdOptions, 'endpoints' | 'grpc'> = {},
): DriverFactory {
  return etcd({ endpoints, grpc, ...more })
}

/** With one of the versions that are tested. */
export async function makeOverGrpcOf(
  version: string,
  endpoints: readonly string[],
  more: Omit<EtcdOptions, 'endpoints' | 'grpc'> = {},
): Promise<DriverFactory> {
  return etcd({ endpoints, grpc: await grpcVersionNamed(version).load(), ...more })
}
