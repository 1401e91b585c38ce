/**
 * Parses the destination of a snapshot, once, so that Craik connects to exactly what it checked. It refuses a text that
 * two parsers could read differently. It accepts names, because Craik checks their addresses when it connects.
 */
import { isIPv4, isIPv6 } from 'node:net'
import { CraikError } from '../../../errors.ts'
import type { ExportRequest } from '../../manager-types.ts'

const MAX_DESTINATION_BYTES = 2048
const DEFAULT_REGION = 'us-east-1'

export interface HttpsTarget {
  /** The host to connect to, which the certificate must name: a name, or an address without brackets. */
  readonly host: string
  readonly port: number
  /** Includes the query, which may be a credential. Never shown and never stored. */
  readonly path: string
}

export type ExportDestination =
  | ({ readonly kind: 'https' } & HttpsTarget)
  | ({
      readonly kind: 's3'
      readonly region: string
      readonly bucket: string
      readonly accessKeyRef: string
      readonly secretKeyRef: string
      readonly sessionTokenRef: string | undefined
    } & HttpsTarget)

export function parseDestination(request: ExportRequest): ExportDestination {
  const { destination } = request
  if (destination.startsWith('s3://')) return parseS3(request)
  for (const option of ['endpoint', 'region', 'accessKeyRef', 'secretKeyRef', 'sessionTokenRef'] as const)
    if (request[option] !== undefined)
      throw invalidDestinationError('only an s3:// destination can have an endpoint, a region and keys')
  return { kind: 'https', ...parseHttps(destination, 'destination') }
}

function parseS3(request: ExportRequest): ExportDestination {
  const { destination, region = DEFAULT_REGION, accessKeyRef, secretKeyRef, sessionTokenRef } = request
  requirePlain(destination, 'destination')
  const [, bucket, key] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])\/(.+)$/.exec(destination) ?? []
  if (bucket === undefined || key === undefined || isIPv4(bucket) || bucket.includes('..'))
    throw invalidDestinationError('it must have the form s3://bucket/key')
  if (key.length > 1024 || key.split('/').some((part) => part === '' || part === '.' || part === '..'))
    throw invalidDestinationError('its key is too long, or has empty parts, . or ..')
  if (!/^[A-Za-z0-9._~/-]+$/.test(key))
    throw invalidDestinationError('its key may contain only letters, digits and . _ ~ - /')
  if (!/^[a-z0-9-]{1,32}$/.test(region))
    throw invalidDestinationError('its region must have the form us-east-1')
  if (accessKeyRef === undefined || secretKeyRef === undefined)
    throw new CraikError(
      'usage',
      'an s3:// destination needs the names of two secrets: access key id and secret key',
      {
        hint: 'store both, each with  craik secret set NAME  then add:  --access-key-ref NAME --secret-key-ref NAME',
      },
    )
  const keys = { accessKeyRef, secretKeyRef, sessionTokenRef }
  const shared = { kind: 's3', region, bucket, ...keys } as const
  if (request.endpoint === undefined && !bucket.includes('.'))
    return { ...shared, host: `${bucket}.s3.${region}.amazonaws.com`, port: 443, path: `/${key}` }
  const endpoint = parseHttps(request.endpoint ?? `https://s3.${region}.amazonaws.com`, 'endpoint')
  if (/[?%]/.test(endpoint.path))
    throw invalidDestinationError('its endpoint has a query or a percent-encoded path')
  return { ...shared, ...endpoint, path: `${endpoint.path.replace(/\/$/, '')}/${bucket}/${key}` }
}

function parseHttps(text: string, what: 'destination' | 'endpoint'): HttpsTarget {
  requirePlain(text, what)
  const parts = /^https:\/\/([^/?#]*)([^?#]*)(\?[^#]*)?$/i.exec(text)
  if (parts === null)
    throw invalidDestinationError(
      text.includes('#') ? 'it has a fragment' : 'it must start with https:// or s3://',
    )
  const [, authority, path, query] = parts as unknown as [string, string, string, string | undefined]
  if (authority.includes('@'))
    throw invalidDestinationError('it contains a user name or password before an @')
  const split = /^(\[[^\]]*\]|[^:[\]]*)(?::([0-9]{1,5}))?$/.exec(authority)
  if (split === null) throw invalidDestinationError('its host or port is malformed')
  const [, host, digits] = split as unknown as [string, string, string | undefined]
  const port = digits === undefined ? 443 : Number(digits)
  if (port < 1 || port > 65_535 || (digits !== undefined && String(port) !== digits))
    throw invalidDestinationError('its port must be a number from 1 to 65535')
  const plain = plainHost(host)
  const url = new URL(`https://${host}:${port}${path}${query ?? ''}`)
  // Every other parser must read the same host and path.
  if (url.hostname !== host.toLowerCase() || url.username !== '' || url.password !== '')
    throw invalidDestinationError('its host is not in canonical form')
  if (path !== '' && url.pathname !== path) throw invalidDestinationError('its path is not in canonical form')
  return { host: plain, port, path: `${url.pathname}${url.search}` }
}

function plainHost(host: string): string {
  if (host.startsWith('[')) {
    const address = host.slice(1, -1)
    if (!isIPv6(address) || address.includes('%'))
      throw invalidDestinationError('its host is not a valid IPv6 address')
    return address.toLowerCase()
  }
  if (isIPv4(host)) return host
  const isName =
    /^(?=.{1,253}$)(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/
  // Some programs treat a name whose last part is a number as an address.
  if (!isName.test(host) || /(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$/i.test(host))
    throw invalidDestinationError('its host is neither a valid name nor a canonical address')
  return host.toLowerCase()
}

function requirePlain(text: string, what: string): void {
  if (Buffer.byteLength(text) > MAX_DESTINATION_BYTES)
    throw invalidDestinationError(`the ${what} is longer than ${MAX_DESTINATION_BYTES} bytes`)
  if (/[^\x21-\x7e]/.test(text))
    throw invalidDestinationError('it contains a space, a control character or a non-ASCII character')
  if (/[\\"<>^`{|}]/.test(text))
    throw invalidDestinationError('it contains a character that must be percent-encoded')
}

/** Does not repeat the destination, because its query may be a credential. */
function invalidDestinationError(why: string): CraikError {
  return new CraikError('usage', `invalid destination: ${why}`, {
    hint: 'use https://HOST/PATH, s3://BUCKET/KEY or a file:  craik snapshot export ID FILE',
  })
}
