/**
 * Encodes messages in the form of the JSON gateway (bytes in base64, 64-bit numbers as strings, zeros omitted) as protobuf, and
 * decodes them into it. Which fields a message has is data: `messages.ts`.
 */
import { describe } from '../../../core/name.js'
import { GarbledError, lengthWire, Reader, varintWire, Writer } from './wire.js'

type Scalar = 'bytes' | 'string' | 'int64' | 'uint64' | 'bool'

export interface Field {
  readonly number: number
  readonly type: Scalar | Message | readonly string[]
  readonly repeated: boolean
}

/** The fields by their names. */
export class Message {
  readonly name: string
  readonly #fields: () => Readonly<Record<string, Field>>
  #byName: ReadonlyMap<string, Field> | undefined
  #byNumber: ReadonlyMap<number, readonly [name: string, field: Field]> | undefined

  /** @param fields a function, because a message may have itself as a field */
  constructor(name: string, fields: () => Readonly<Record<string, Field>>) {
    this.name = name
    this.#fields = fields
  }

  /** @throws TypeError for a field or a value that cannot be encoded */
  encode(value: object): Buffer {
    this.#byName ??= new Map(Object.entries(this.#fields()))
    const out = new Writer()
    for (const [name, given] of Object.entries(value)) {
      if (given === undefined) continue
      const field = this.#byName.get(name)
      if (field === undefined) throw new TypeError(`${this.name} has no field ${describe(name)} over gRPC`)
      if (!field.repeated) write(out, field, given, name)
      else for (const one of given as readonly unknown[]) write(out, field, one, name)
    }
    return out.finish()
  }

  /** @throws GarbledError */
  decode(bytes: Buffer): object {
    this.#byNumber ??= new Map(
      Object.entries(this.#fields()).map((entry) => [entry[1].number, entry] as const),
    )
    const value: Record<string, unknown> = {}
    const reader = new Reader(bytes)
    while (!reader.over) {
      const tag = reader.small()
      const [name, field] = this.#byNumber.get(tag >>> 3) ?? []
      if (name === undefined || field === undefined) {
        reader.skip(tag & 7)
        continue
      }
      if ((tag & 7) !== wireType(field)) throw new GarbledError(`${this.name}.${name} is of another type`)
      const one = read(reader, field)
      if (!field.repeated) value[name] = one
      else {
        const all = value[name] as unknown[] | undefined
        if (all === undefined) value[name] = [one]
        else all.push(one)
      }
    }
    return value
  }
}

const wireType = ({ type }: Field): number =>
  type === 'bytes' || type === 'string' || type instanceof Message ? lengthWire : varintWire

/** Writes zeros, too: the field itself says which comparison a `Compare` is. */
function write(out: Writer, field: Field, value: unknown, name: string): void {
  out.varint(field.number * 8 + wireType(field))
  const { type } = field
  if (type instanceof Message) out.bytes(type.encode(value as object))
  else if (type === 'bytes') out.bytes(toBytes(value, name))
  else if (type === 'string') out.bytes(Buffer.from(String(value)))
  else if (type === 'bool') out.varint(value === true ? 1 : 0)
  else if (type === 'int64' || type === 'uint64') out.varint(toNumber(value, name))
  else out.varint(toEnum(type, value, name))
}

function read(reader: Reader, { type }: Field): unknown {
  if (type instanceof Message) return type.decode(reader.bytes())
  if (type === 'bytes') return reader.bytes().toString('base64')
  if (type === 'string') return reader.bytes().toString()
  const number = reader.varint()
  if (type === 'bool') return Number(number) !== 0
  if (type === 'uint64') return String(number)
  if (type === 'int64') return String(typeof number === 'bigint' ? BigInt.asIntN(64, number) : number)
  return type[Number(number)] ?? String(number)
}

function toBytes(value: unknown, name: string): Buffer {
  if (typeof value !== 'string')
    throw new TypeError(`${name} must be a string in base64, got ${describe(value)}`)
  const bytes = Buffer.from(value, 'base64')
  // `Buffer.from` passes over what is not base64.
  const digits = value.endsWith('==')
    ? value.length - 2
    : value.endsWith('=')
      ? value.length - 1
      : value.length
  if (bytes.length !== Math.floor((digits * 3) / 4))
    throw new TypeError(`${name} must be in base64, got ${describe(value)}`)
  return bytes
}

function toNumber(value: unknown, name: string): number | bigint {
  if (Number.isSafeInteger(value)) return value as number
  if (typeof value !== 'string' || !/^-?\d{1,20}$/.test(value))
    throw new TypeError(`${name} must be a whole number, got ${describe(value)}`)
  return value.length < 16 ? Number(value) : BigInt(value)
}

function toEnum(names: readonly string[], value: unknown, name: string): number {
  const at = names.indexOf(value as string)
  if (at < 0) throw new TypeError(`${name} must be one of ${names.join(', ')}, got ${describe(value)}`)
  return at
}
