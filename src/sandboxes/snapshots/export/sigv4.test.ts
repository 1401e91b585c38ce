import { describe, expect, it } from 'vitest'
import { signRequest } from './sigv4.ts'

/** The published examples of the algorithm's authors. No account ever had these keys. */
const KEYS = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
}
const AT = new Date('2013-05-24T00:00:00Z')
const NOTHING = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
const shared = { host: 'examplebucket.s3.amazonaws.com', region: 'us-east-1', contentSha256: NOTHING }

function signatureOf(request: Parameters<typeof signRequest>[0]): string | undefined {
  return /Signature=([0-9a-f]{64})$/.exec(signRequest(request, KEYS, AT).authorization!)?.[1]
}

describe('signatures of version 4', () => {
  it('equal those of the published examples', () => {
    expect(
      signatureOf({ ...shared, method: 'GET', path: '/test.txt', headers: { range: 'bytes=0-9' } }),
    ).toBe('f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41')
    expect(
      signatureOf({
        ...shared,
        method: 'PUT',
        path: '/test%24file.text',
        headers: { date: 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class': 'REDUCED_REDUNDANCY' },
        contentSha256: '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
      }),
    ).toBe('98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd')
    expect(signatureOf({ ...shared, method: 'GET', path: '/?lifecycle', headers: {} })).toBe(
      'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
    )
    expect(signatureOf({ ...shared, method: 'GET', path: '/?max-keys=2&prefix=J', headers: {} })).toBe(
      '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
    )
  })

  it('cover the session token', () => {
    const request = { ...shared, method: 'GET', path: '/a', headers: {} } as const
    const headers = signRequest(request, { ...KEYS, sessionToken: 'token' }, AT)
    expect(headers['x-amz-security-token']).toBe('token')
    expect(headers.authorization).toContain(
      'SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token',
    )
  })
})
