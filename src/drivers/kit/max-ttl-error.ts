/** A `ttl` above the driver's `maxTtl`, with both as fields, in ms, for programs in which that setting has another name. */
export class MaxTtlError extends RangeError {
  // What users catch is a RangeError, as for every wrong option.
  override readonly name = 'RangeError'
  readonly ttl: number
  readonly maxTtl: number

  constructor(what: string, ttl: number, maxTtl: number) {
    super(`${what}: a ttl of ${ttl} ms is more than maxTtl ${maxTtl}; set maxTtl as high in every process`)
    this.ttl = ttl
    this.maxTtl = maxTtl
  }
}
