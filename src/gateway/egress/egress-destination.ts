/**
 * The destination of a request, in the one canonical form that Craik checks, looks up and dials. A text that two
 * parsers could read differently is refused: the checked destination is the dialled one.
 */
import { isIPv4, isIPv6 } from 'node:net'
import { domainToASCII, domainToUnicode } from 'node:url'

const MAX_NAME_LENGTH = 253
const MAX_TEXT_LENGTH = 1024

type HostForm = 'name' | 'ipv4' | 'ipv6'

export interface Host {
  /** A name in lower case without a final dot, or an address without brackets. */
  readonly host: string
  readonly form: HostForm
}

export interface Destination extends Host {
  readonly port: number
}

/** The reason why a text is not a destination, for its sender. */
export interface NameProblem {
  readonly problem: string
}

export function isNameProblem(value: object): value is NameProblem {
  return 'problem' in value
}

/** Returns `host:port`, for display and as a client can send it. */
export function formatDestination({ host, form, port }: Destination): string {
  return `${form === 'ipv6' ? `[${host}]` : host}:${port}`
}

/**
 * Parses the target of a CONNECT request or, with a default port, the authority of a URL or a Host header. ASCII only.
 */
export function parseAuthority(text: string, defaultPort?: number): Destination | NameProblem {
  if (/[^\x21-\x7e]/.test(text))
    return { problem: 'it contains a space, a control character or a non-ASCII character' }
  return parseHostAndPort(text, defaultPort)
}

/** Parses user input, which can contain letters outside ASCII. */
export function parseHostAndPort(text: string, defaultPort?: number): Destination | NameProblem {
  if (text.length > MAX_TEXT_LENGTH) return { problem: 'it is too long' }
  if (text.includes('@')) return { problem: 'it contains a user name before an @' }
  const split = /^(\[[^[\]]*\]|[^:[\]]*)(?::([0-9]*))?$/.exec(text)
  if (split === null) return { problem: 'it is not of the form host:port' }
  const [, name, digits] = split as unknown as [string, string, string | undefined]
  const port = digits === undefined ? defaultPort : parsePort(digits)
  if (port === undefined) return { problem: 'its port is not a number from 1 to 65535' }
  const host = parseHost(name)
  return isNameProblem(host) ? host : { ...host, port }
}

export function parsePort(digits: string): number | undefined {
  const port = /^[1-9][0-9]{0,4}$/.test(digits) ? Number(digits) : 0
  return port >= 1 && port <= 65_535 ? port : undefined
}

/** Parses a name or an address. IPv6 addresses are in brackets. */
export function parseHost(text: string): Host | NameProblem {
  if (text.length > MAX_TEXT_LENGTH) return { problem: 'its host is too long' }
  if (/[\p{Cc}\p{Zs}\p{Zl}\p{Zp}]/u.test(text))
    return { problem: 'its host contains a space or a control character' }
  if (text.includes('%')) return { problem: 'its host is percent-encoded or has a zone' }
  if (text.startsWith('[')) return parseIpv6(text)
  const ascii = /^[\x21-\x7e]*$/.test(text) ? text.toLowerCase() : domainToASCII(text)
  const name = ascii.endsWith('.') ? ascii.slice(0, -1) : ascii
  if (name === '') return { problem: 'its host is empty or not a name' }
  return /(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$/.test(name) ? parseIpv4(name) : parseName(name)
}

function parseName(name: string): Host | NameProblem {
  if (name.length > MAX_NAME_LENGTH) return { problem: 'its host is longer than 253 characters' }
  const labels = name.split('.')
  const isLabel = (label: string) => /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/.test(label)
  if (!labels.every(isLabel)) return { problem: 'its host is not a valid name' }
  if (labels.some((label) => label.startsWith('xn--')) && !isEncodedOnce(name))
    return { problem: 'its host is an invalid internationalized name' }
  return { host: name, form: 'name' }
}

/** Returns whether every label with the encoding prefix is encoded, and survives a round trip. */
function isEncodedOnce(name: string): boolean {
  const read = domainToUnicode(name)
  return !read.split('.').some((label) => label.startsWith('xn--')) && domainToASCII(read) === name
}

/** Octal, hexadecimal and shortened forms are read as every resolver reads them. */
function parseIpv4(name: string): Host | NameProblem {
  try {
    const { hostname } = new URL(`http://${name}/`)
    if (isIPv4(hostname)) return { host: hostname, form: 'ipv4' }
  } catch {
    // The check below reports it.
  }
  return { problem: 'its host ends in a number but is not an address' }
}

function parseIpv6(text: string): Host | NameProblem {
  const address = text.slice(1, -1)
  if (!text.endsWith(']') || !isIPv6(address)) return { problem: 'its host is not an IPv6 address' }
  const host = new URL(`http://[${address}]/`).hostname.slice(1, -1)
  // A system dials the mapped IPv4 address.
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(host)
  if (mapped === null) return { host, form: 'ipv6' }
  const [high, low] = [Number.parseInt(mapped[1]!, 16), Number.parseInt(mapped[2]!, 16)]
  return { host: [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.'), form: 'ipv4' }
}
