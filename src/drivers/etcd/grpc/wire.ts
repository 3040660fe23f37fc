/** The encoding of protobuf: varints, and fields with a length. https://protobuf.dev/programming-guides/encoding/ */

export const varintWire = 0
export const lengthWire = 2

/** The bytes are no message of the expected form. */
export class GarbledError extends Error {}

export class Writer {
  #bytes = Buffer.allocUnsafe(256)
  #size = 0

  /** The bits of a negative number are those of its two's complement of 64 bits. */
  varint(value: number | bigint): void {
    this.#reserve(10)
    let rest = value
    if (typeof rest === 'number' && (rest < 0 || rest > 0x7fff_ffff)) rest = BigInt(rest)
    if (typeof rest === 'bigint') {
      rest = BigInt.asUintN(64, rest)
      while (rest > 0x7fn) {
        this.#bytes[this.#size++] = Number(rest & 0x7fn) | 0x80
        rest >>= 7n
      }
      rest = Number(rest)
    }
    while (rest > 0x7f) {
      this.#bytes[this.#size++] = (rest & 0x7f) | 0x80
      rest >>>= 7
    }
    this.#bytes[this.#size++] = rest
  }

  /** The length of `part`, and `part`. */
  bytes(part: Uint8Array): void {
    this.varint(part.length)
    this.#reserve(part.length)
    this.#bytes.set(part, this.#size)
    this.#size += part.length
  }

  finish(): Buffer {
    return this.#bytes.subarray(0, this.#size)
  }

  #reserve(more: number): void {
    if (this.#size + more <= this.#bytes.length) return
    const larger = Buffer.allocUnsafe(2 * (this.#size + more))
    this.#bytes.copy(larger, 0, 0, this.#size)
    this.#bytes = larger
  }
}

export class Reader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get over(): boolean {
    return this.#at >= this.#bytes.length
  }

  /** A bigint where it has more than 49 bits. */
  varint(): number | bigint {
    let value = 0
    let scale = 1
    for (let n = 0; n < 7; n++) {
      const byte = this.#byte()
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
      scale *= 128
    }
    let large = BigInt(value)
    for (let shift = 49n; shift <= 63n; shift += 7n) {
      const byte = this.#byte()
      large |= BigInt(byte & 0x7f) << shift
      if (byte >= 0x80) continue
      if (large >= 1n << 64n) break
      return large
    }
    throw new GarbledError('a number has more than 64 bits')
  }

  /** A varint that must be small: a tag, a length or an enum. */
  small(): number {
    const value = this.varint()
    if (typeof value === 'bigint' || value > 0xffff_ffff)
      throw new GarbledError(`the number ${value} is too large here`)
    return value
  }

  bytes(): Buffer {
    const length = this.small()
    const end = this.#at + length
    if (end > this.#bytes.length)
      throw new GarbledError(`a field of ${length} bytes has only ${this.#bytes.length - this.#at}`)
    const part = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return part
  }

  /** Passes over a field that is not known. */
  skip(wire: number): void {
    if (wire === varintWire) this.varint()
    else if (wire === lengthWire) this.bytes()
    else if (wire === 1 || wire === 5) {
      this.#at += wire === 1 ? 8 : 4
      if (this.#at > this.#bytes.length) throw new GarbledError('the last field is cut off')
    } else throw new GarbledError(`there is no wire type ${wire}`)
  }

  #byte(): number {
    const byte = this.#bytes[this.#at++]
    if (byte === undefined) throw new GarbledError('the last field is cut off')
    return byte
  }
}
