// What the child of the clock test calls to get a driver over gRPC.
export { makeOverGrpc as make } from './in-child.js'
