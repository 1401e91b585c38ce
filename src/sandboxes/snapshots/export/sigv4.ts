/** Signs requests for S3-compatible stores (AWS Signature Version 4, one request as a whole). */
import { createHash, createHmac } from 'node:crypto'

export interface SigningKeys {
  readonly accessKeyId: string
  readonly secretKey: string
  readonly sessionToken?: string | undefined
}

export interface SignedRequest {
  readonly method: 'GET' | 'PUT'
  /** As in the `host` header. */
  readonly host: string
  /** Percent-encoded, and with the query if there is one. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly region: string
  /** The digest of the content. An upload over TLS can leave the content unsigned. */
  readonly contentSha256: string
}

export const UNSIGNED = 'UNSIGNED-PAYLOAD'
const ALGORITHM = 'AWS4-HMAC-SHA256'

/** Returns the headers to send, with the signature. */
export function signRequest(request: SignedRequest, keys: SigningKeys, at: Date): Record<string, string> {
  const stamp = at.toISOString().replaceAll(/[-:]|\.\d{3}/g, '')
  const scope = `${stamp.slice(0, 8)}/${request.region}/s3/aws4_request`
  const headers: Record<string, string> = {
    ...request.headers,
    host: request.host,
    'x-amz-content-sha256': request.contentSha256,
    'x-amz-date': stamp,
    ...(keys.sessionToken !== undefined && { 'x-amz-security-token': keys.sessionToken }),
  }
  const names = Object.keys(headers).toSorted()
  const [path, query = ''] = request.path.split('?', 2) as [string, string?]
  const canonical = [
    request.method,
    encode(path, true),
    canonicalQuery(query),
    ...names.map((name) => `${name}:${headers[name]!.trim().replaceAll(/ +/g, ' ')}`),
    '',
    names.join(';'),
    request.contentSha256,
  ].join('\n')
  const toSign = [ALGORITHM, stamp, scope, createHash('sha256').update(canonical).digest('hex')].join('\n')
  const key = [request.region, 's3', 'aws4_request'].reduce<Buffer>(
    (parent, part) => hmac(parent, part),
    hmac(`AWS4${keys.secretKey}`, stamp.slice(0, 8)),
  )
  const signature = createHmac('sha256', key).update(toSign).digest('hex')
  const authorization = `${ALGORITHM} Credential=${keys.accessKeyId}/${scope},SignedHeaders=${names.join(';')},Signature=${signature}`
  return { ...headers, authorization }
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}

function canonicalQuery(query: string): string {
  if (query === '') return ''
  const parts = query.split('&').map((part) => {
    const [name = '', value = ''] = part.split('=', 2)
    return `${encode(name, false)}=${encode(value, false)}`
  })
  return parts.toSorted().join('&')
}

/** Encodes everything except letters, digits and `-._~`. Text that is encoded already is not encoded twice. */
function encode(text: string, keepSlashes: boolean): string {
  const plain = decodeURIComponent(text)
  const all = encodeURIComponent(plain).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return keepSlashes ? all.replaceAll('%2F', '/') : all
}
