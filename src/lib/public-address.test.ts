import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nonPublicReason } from './public-address.ts'

describe('addresses of the public internet', () => {
  it.each(['1.1.1.1', '8.8.8.8', '172.15.0.1', '172.32.0.1', '100.63.255.255', '2606:4700::1111', '2a00::1'])(
    'include %s',
    (address) => expect(nonPublicReason(address)).toBeUndefined(),
  )

  it.each([
    ['127.0.0.1', 'loopback'],
    ['10.0.0.1', 'private'],
    ['172.16.0.1', 'private'],
    ['192.168.1.1', 'private'],
    ['169.254.169.254', 'link-local'],
    ['168.63.129.16', 'metadata'],
    ['100.64.0.1', 'carrier-grade NAT'],
    ['0.0.0.0', 'unspecified'],
    ['224.0.0.1', 'multicast'],
    ['255.255.255.255', 'reserved'],
    ['::1', 'loopback'],
    ['::', 'not of the public internet'],
    ['::ffff:10.0.0.1', 'not of the public internet'],
    ['::ffff:1.1.1.1', 'not of the public internet'],
    ['::ffff:0a00:0001', 'not of the public internet'],
    ['::10.0.0.1', 'not of the public internet'],
    ['64:ff9b::10.0.0.1', 'not of the public internet'],
    ['64:ff9b:1::1', 'not of the public internet'],
    ['2002:0a00:0001::1', '6to4'],
    ['2001:0:4136:e378::1', 'reserved, such as Teredo'],
    ['2001:db8::1', 'documentation'],
    ['fc00::1', 'not of the public internet'],
    ['fd00:ec2::254', 'not of the public internet'],
    ['fe80::1', 'not of the public internet'],
    ['fe80::1%eth0', 'not a plain address'],
    ['ff02::1', 'not of the public internet'],
    ['0177.0.0.1', 'not a plain address'],
    ['localhost', 'not a plain address'],
  ])('exclude %s as %s', (address, why) => expect(nonPublicReason(address)).toBe(why))

  it('exclude every IPv4 address of a private network, in every IPv6 form of it', () => {
    const octet = fc.integer({ min: 0, max: 255 })
    const hidden = fc.tuple(fc.constantFrom('::ffff:', '::', '64:ff9b::', '64:ff9b:1::'), octet, octet, octet)
    fc.assert(
      fc.property(hidden, ([prefix, b, c, d]) => {
        expect(nonPublicReason(`10.${b}.${c}.${d}`)).toBe('private')
        expect(nonPublicReason(`${prefix}10.${b}.${c}.${d}`)).toBeDefined()
      }),
    )
  })
})
