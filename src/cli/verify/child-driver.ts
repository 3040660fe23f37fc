/** How a child process of the conformance suite reaches the same store. */
import type { DriverFactory } from 'holdfast'
import { target } from '../connect.js'

export async function connectIn(url: string): Promise<DriverFactory> {
  return (await target(url).connect()).driver
}
