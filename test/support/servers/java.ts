// A Java to run servers and clients on: unpacked like any server, so that the machine needs none.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { unpacked } from './fetch.js'

/** Small on purpose: several run beside each other on a small machine. */
export const thrifty: readonly string[] = [
  '-Xmx128m',
  '-XX:+UseSerialGC',
  '-XX:TieredStopAtLevel=1',
  '-Xshare:auto',
]

/** The folder that has `java` and `javac`. */
export async function javaPrograms(): Promise<string> {
  const { root } = await unpacked('java17')
  const home = readdirSync(join(root, 'usr/lib/jvm')).find((entry) => entry.startsWith('java-17-openjdk'))
  if (home === undefined) throw new Error(`there is no Java in ${root}/usr/lib/jvm`)
  return join(root, 'usr/lib/jvm', home, 'bin')
}

/** A class path out of the jars of unpacked packages. */
export async function classPath(
  from: string,
  jars: readonly string[],
  more: readonly string[] = [],
): Promise<string> {
  const { root } = await unpacked(from)
  return [...jars.map((jar) => join(root, 'usr/share/java', `${jar}.jar`)), ...more].join(':')
}
