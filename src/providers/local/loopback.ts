/**
 * Decides whether a base URL is on this host. It requires the one canonical form of the address that will be dialed.
 * Programs disagree about every other form, so Craik refuses those.
 */
import { isIPv6 } from 'node:net'
import { CraikError } from '../../errors.ts'
import { memoize } from '../../lib/memoize.ts'
import { redactText } from '../../receipts/redaction/redact.ts'

export interface LoopbackUrl {
  /** In its canonical form, without a slash at the end. */
  readonly baseUrl: string
  readonly protocol: 'http:' | 'https:'
  /** `localhost`, an IPv4 address, or `::1`. */
  readonly host: string
  readonly port: number
  /** The addresses to dial, in order. Names are never resolved, so neither DNS nor the hosts file can change them. */
  readonly addresses: readonly string[]
}

export type LoopbackRefusal =
  | 'too_long'
  | 'control_character'
  | 'backslash'
  | 'not_ascii'
  | 'not_http'
  | 'user_info'
  | 'query_or_fragment'
  | 'port'
  | 'path'
  | 'secret'
  | 'no_host'
  | 'percent_encoding'
  | 'trailing_dot'
  | 'odd_spelling'
  | 'ipv4_in_ipv6'
  | 'zone_id'
  | 'unspecified'
  | 'link_local'
  | 'private_network'
  | 'other_address'
  | 'metadata_service'
  | 'looks_like_localhost'
  | 'name'

const REASONS: Readonly<Record<LoopbackRefusal, string>> = {
  too_long: 'it is longer than 500 characters',
  control_character: 'it contains a space or a control character',
  backslash: 'it contains a backslash, which programs interpret differently',
  not_ascii: 'it contains non-ASCII characters, which programs may convert',
  not_http: 'it does not start with http:// or https://',
  user_info: 'it contains a user name or password before an @',
  query_or_fragment: 'a base URL has no ? or # part',
  port: 'its port is not a plain number from 1 to 65535',
  path: 'its path does not consist of plain segments such as /v1',
  secret: 'part of its path looks like a secret, and addresses are recorded unmasked',
  no_host: 'it has no host',
  percent_encoding: 'its host is percent-encoded',
  trailing_dot: 'its host ends with a dot',
  odd_spelling: 'its host is a non-standard form of an address; write 127.0.0.1 or [::1]',
  ipv4_in_ipv6: 'its host is an IPv4-mapped IPv6 address; write 127.0.0.1',
  zone_id: 'its host has a zone id',
  unspecified: 'its host is the unspecified address, which means every interface',
  link_local: 'its host is a link-local address, such as a cloud metadata service',
  private_network: 'its host is on a private network, not on this machine',
  other_address: 'its host is an address of another machine',
  metadata_service: 'its host is the name of a metadata service',
  looks_like_localhost: 'its host only looks like localhost',
  name: 'its host is a name that DNS would resolve',
}

const LOCALHOST = ['127.0.0.1', '::1'] as const

/**
 * Parses a base URL that must be loopback, or throws a `usage` error with the reason in its details. `what` is the
 * user's name for the URL. The error does not repeat the URL.
 */
export function parseLoopbackUrl(text: string, what = 'base URL'): LoopbackUrl {
  const parsed = readLoopbackUrl(text)
  if (typeof parsed !== 'string') return parsed
  throw new CraikError('usage', `invalid ${what}: ${REASONS[parsed]}`, {
    hint:
      parsed === 'secret'
        ? 'remove the secret from the address; store a key with  craik secret set NAME'
        : 'use a loopback address: http://localhost:PORT/v1, 127.0.0.1 or [::1]',
    details: { reason: parsed },
  })
}

/** Returns why a base URL is not loopback, without repeating it. `undefined` when it is loopback. */
export function loopbackRefusal(text: string): string | undefined {
  const parsed = readLoopbackUrl(text)
  return typeof parsed === 'string' ? REASONS[parsed] : undefined
}

/** The results are cached, because every call checks the address of its provider. */
const ADDRESSES_MAX = 256

const readLoopbackUrl = memoize(parseAddress, ADDRESSES_MAX)

function parseAddress(text: string): LoopbackUrl | LoopbackRefusal {
  if (text.length > 500) return 'too_long'
  if (/[\0-\x20\x7f]/.test(text)) return 'control_character'
  if (text.includes('\\')) return 'backslash'
  if (/[^\x21-\x7e]/.test(text)) return 'not_ascii'
  const parts = /^(https?):\/\/([^/?#]*)([^?#]*)(.*)$/i.exec(text)
  if (parts === null) return 'not_http'
  const [, scheme, authority, path, rest] = parts as unknown as [string, string, string, string, string]
  if (authority.includes('@')) return 'user_info'
  if (rest !== '') return 'query_or_fragment'
  const split = /^(\[[^\]]*\]|[^:[\]]*)(?::(.*))?$/.exec(authority)
  if (split === null || isIPv6(authority)) return 'odd_spelling'
  const refusal = refuseHost(split[1]!)
  if (refusal !== undefined) return refusal
  const protocol = scheme.toLowerCase() === 'https' ? 'https:' : 'http:'
  const port = portOf(split[2], protocol)
  if (port === undefined) return 'port'
  if (!/^(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._~-]+)*\/?$/.test(path)) return 'path'
  if ([text, ...path.split('/')].some((part) => redactText(part).labels.length > 0)) return 'secret'
  return toLoopbackUrl(protocol, split[1]!.toLowerCase(), port, path.replace(/\/$/, ''))
}

function toLoopbackUrl(
  protocol: LoopbackUrl['protocol'],
  host: string,
  port: number,
  path: string,
): LoopbackUrl | LoopbackRefusal {
  const url = new URL(`${protocol}//${host}:${port}${path}`)
  // The parser that undici uses must find exactly the same host.
  if (url.hostname !== host || url.username !== '' || url.password !== '') return 'odd_spelling'
  const address = host === '[::1]' ? '::1' : host
  return {
    baseUrl: `${url.origin}${path}`,
    protocol,
    host: address,
    port,
    addresses: address === 'localhost' ? LOCALHOST : [address],
  }
}

function portOf(text: string | undefined, protocol: string): number | undefined {
  if (text === undefined) return protocol === 'https:' ? 443 : 80
  return /^[1-9]\d{0,4}$/.test(text) && Number(text) <= 65_535 ? Number(text) : undefined
}

function refuseHost(host: string): LoopbackRefusal | undefined {
  if (host === '' || host === '[]') return 'no_host'
  if (host.startsWith('[')) return refuseIpv6(host.slice(1, -1))
  if (host.includes('%')) return 'percent_encoding'
  if (host.endsWith('.')) return 'trailing_dot'
  if (/^\d{1,3}(?:\.\d{1,3}){3}$/.test(host)) return refuseIpv4(host)
  // The URL parser reads a host as an IPv4 address when its last part is a number, even a hexadecimal one.
  if (/(?:^|\.)(?:\d+|0x[0-9a-f]*)$/i.test(host)) return 'odd_spelling'
  const name = host.toLowerCase()
  if (name === 'localhost') return undefined
  if (/^metadata(?:\.|$)|^instance-data(?:\.|$)/.test(name)) return 'metadata_service'
  return name.includes('localhost') || /^ip6-(?:localhost|loopback)$/.test(name)
    ? 'looks_like_localhost'
    : 'name'
}

function refuseIpv4(host: string): LoopbackRefusal | undefined {
  const octets = host.split('.').map(Number) as [number, number, number, number]
  if (octets.join('.') !== host || octets.some((octet) => octet > 255)) return 'odd_spelling'
  const [a, b] = octets
  if (a === 127) return undefined
  if (a === 0) return 'unspecified'
  if (a === 169 && b === 254) return 'link_local'
  const isPrivate =
    a === 10 || (a === 172 && b >> 4 === 1) || (a === 192 && b === 168) || (a === 100 && b >> 6 === 1)
  return isPrivate ? 'private_network' : 'other_address'
}

function refuseIpv6(address: string): LoopbackRefusal | undefined {
  if (address === '::1') return undefined
  if (address.includes('%')) return 'zone_id'
  if (!isIPv6(address)) return 'odd_spelling'
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1)
  if (canonical === '::1') return 'odd_spelling'
  if (canonical === '::') return 'unspecified'
  if (/^(?:::ffff:|64:ff9b:|2002:)/.test(canonical) || /^::[0-9a-f]{1,4}(?::[0-9a-f]{1,4})?$/.test(canonical))
    return 'ipv4_in_ipv6'
  if (/^fe[89ab]/.test(canonical)) return 'link_local'
  return /^f[cd]/.test(canonical) ? 'private_network' : 'other_address'
}
