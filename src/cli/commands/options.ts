/** Options that several commands share. */
import type { Command } from 'commander'

export const onText =
  'the store: a URL, or a name in holdfast.json (default: $HOLDFAST_URL, else its default, else local:)'
export const verboseText = 'say which store it is, and which file says so'

/** For every command that connects to a store; read as `TlsOptions`. */
export function tlsOptions(command: Command): Command {
  return command
    .option('--ca <file>', 'TLS: trust this authority (PEM) instead of those Node trusts')
    .option('--cert <file>', "TLS: this client's certificate (PEM), with --key")
    .option('--key <file>', 'TLS: the private key of --cert (PEM)')
    .option('--insecure', "TLS: accept any certificate; anybody on the way can answer in the store's place")
}
