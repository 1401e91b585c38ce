/** Creates a self-signed certificate for loopback in each test run, so that the repository contains no private key. */
import { generateKeyPairSync, sign } from 'node:crypto'

export interface Certificate {
  readonly key: string
  readonly cert: string
}

/** Valid from 2020 to 2049 for `localhost`, the given names and IPv4 addresses (X.509 v3, ECDSA P-256). */
export function selfSigned(addresses: readonly string[], hosts: readonly string[] = []): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const name = sequence(set(sequence(oid(0x55, 0x04, 0x03), der(0x0c, Buffer.from('craik test')))))
  const validity = sequence(der(0x17, Buffer.from('200101000000Z')), der(0x17, Buffer.from('491231235959Z')))
  const ecdsaWithSha256 = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02))
  const names = sequence(
    ...['localhost', ...hosts].map((host) => der(0x82, Buffer.from(host))),
    ...addresses.map((address) => der(0x87, Buffer.from(address.split('.').map(Number)))),
  )
  const isAuthority = sequence(der(0x01, Buffer.from([0xff])))
  const extensions = sequence(
    sequence(oid(0x55, 0x1d, 0x11), der(0x04, names)),
    sequence(oid(0x55, 0x1d, 0x13), der(0x01, Buffer.from([0xff])), der(0x04, isAuthority)),
  )
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([1])),
    ecdsaWithSha256,
    name,
    validity,
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  )
  const signature = Buffer.concat([Buffer.from([0]), sign('sha256', body, privateKey)])
  const whole = sequence(body, ecdsaWithSha256, der(0x03, signature))
  const lines = whole
    .toString('base64')
    .match(/.{1,64}/g)!
    .join('\n')
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  }
}

function der(tag: number, content: Buffer): Buffer {
  const { length } = content
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts))
}

function set(...parts: readonly Buffer[]): Buffer {
  return der(0x31, Buffer.concat(parts))
}

function oid(...bytes: readonly number[]): Buffer {
  return der(0x06, Buffer.from(bytes))
}
