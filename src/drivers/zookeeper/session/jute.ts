/**
 * Jute, ZooKeeper's encoding: big-endian integers, and strings and buffers prefixed with their length (-1: absent). A frame is a
 * message prefixed with its length.
 */

export class Writer {
  #buffer = Buffer.allocUnsafe(256)
  /** The first four bytes are reserved for the frame's length. */
  #end = 4

  int(value: number): this {
    this.#room(4)
    this.#end = this.#buffer.writeInt32BE(value, this.#end)
    return this
  }

  long(value: bigint): this {
    this.#room(8)
    this.#end = this.#buffer.writeBigInt64BE(value, this.#end)
    return this
  }

  bool(value: boolean): this {
    this.#room(1)
    this.#end = this.#buffer.writeUInt8(value ? 1 : 0, this.#end)
    return this
  }

  text(value: string): this {
    const size = Buffer.byteLength(value)
    this.int(size).#room(size)
    this.#buffer.write(value, this.#end)
    this.#end += size
    return this
  }

  bytes(value: Uint8Array): this {
    this.int(value.length).#room(value.length)
    this.#buffer.set(value, this.#end)
    this.#end += value.length
    return this
  }

  texts(values: readonly string[]): this {
    this.int(values.length)
    for (const value of values) this.text(value)
    return this
  }

  /** The written bytes, prefixed with their length. */
  frame(): Buffer {
    this.#buffer.writeInt32BE(this.#end - 4, 0)
    return this.#buffer.subarray(0, this.#end)
  }

  #room(size: number): void {
    if (this.#end + size <= this.#buffer.length) return
    const larger = Buffer.allocUnsafe(2 * (this.#end + size))
    this.#buffer.copy(larger, 0, 0, this.#end)
    this.#buffer = larger
  }
}

/** Reads one message. @throws RangeError when the message ends too early: the other side does not speak this protocol. */
export class Reader {
  readonly #buffer: Buffer
  #at = 0

  constructor(buffer: Buffer) {
    this.#buffer = buffer
  }

  /** The number of unread bytes. */
  get left(): number {
    return this.#buffer.length - this.#at
  }

  int(): number {
    const value = this.#buffer.readInt32BE(this.#at)
    this.#at += 4
    return value
  }

  long(): bigint {
    const value = this.#buffer.readBigInt64BE(this.#at)
    this.#at += 8
    return value
  }

  bool(): boolean {
    return this.#buffer.readUInt8(this.#at++) !== 0
  }

  /** An absent string reads as an empty one. */
  text(): string {
    const begin = this.#field()
    return this.#buffer.toString('utf8', begin, this.#at)
  }

  bytes(): Buffer {
    const begin = this.#field()
    return this.#buffer.subarray(begin, this.#at)
  }

  /** Skips a length-prefixed field. @returns where its content begins */
  #field(): number {
    const size = Math.max(0, this.int())
    if (size > this.left) throw new RangeError(`a field of ${size} bytes in a message with ${this.left} left`)
    this.#at += size
    return this.#at - size
  }

  texts(): string[] {
    return Array.from({ length: Math.max(0, this.int()) }, () => this.text())
  }
}
