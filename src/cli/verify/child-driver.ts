/** How a child process of the conformance suite reaches the same store. */
import type { DriverFactory } from 'holdfast'
import { target } from '../connect.js'

export async function connectInChild(url: string, insecure: boolean): Promise<DriverFactory> {
  return (await target(url, { insecure }).connect()).driver
}
