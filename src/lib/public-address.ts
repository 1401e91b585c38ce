/** Decides which addresses are on the public internet. Refuses every address that is not known to be public. */
import { BlockList, isIPv4, isIPv6 } from 'node:net'

/**
 * Special IPv4 networks and their purpose (RFC 6890 and its registry, and addresses that cloud providers use
 * internally).
 */
const SPECIAL_IPV4: readonly (readonly [address: string, bits: number, what: string])[] = [
  ['0.0.0.0', 8, 'unspecified'],
  ['10.0.0.0', 8, 'private'],
  ['100.64.0.0', 10, 'carrier-grade NAT'],
  ['127.0.0.0', 8, 'loopback'],
  ['168.63.129.16', 32, 'metadata'],
  ['169.254.0.0', 16, 'link-local'],
  ['172.16.0.0', 12, 'private'],
  ['192.0.0.0', 24, 'reserved'],
  ['192.0.2.0', 24, 'documentation'],
  ['192.31.196.0', 24, 'reserved'],
  ['192.52.193.0', 24, 'reserved'],
  ['192.88.99.0', 24, '6to4 relay'],
  ['192.168.0.0', 16, 'private'],
  ['192.175.48.0', 24, 'reserved'],
  ['198.18.0.0', 15, 'benchmarking'],
  ['198.51.100.0', 24, 'documentation'],
  ['203.0.113.0', 24, 'documentation'],
  ['224.0.0.0', 4, 'multicast'],
  ['240.0.0.0', 4, 'reserved'],
]

/**
 * The only part of IPv6 that was ever allocated. All other addresses (mapped, NAT64, unique local, link-local,
 * multicast) are not public.
 */
const ALLOCATED = ['2000::', 3] as const
const SPECIAL_IPV6: readonly (readonly [address: string, bits: number, what: string])[] = [
  ['2001::', 23, 'reserved, such as Teredo'],
  ['2001:db8::', 32, 'documentation'],
  ['2002::', 16, '6to4'],
  ['2620:4f:8000::', 48, 'reserved'],
  ['3fff::', 20, 'documentation'],
]

/** Returns in a word or two why an address is not public, or `undefined` when it is. */
export function nonPublicReason(address: string): string | undefined {
  if (isIPv4(address)) return findNetwork(SPECIAL_IPV4, address, 'ipv4')
  if (!isIPv6(address) || address.includes('%')) return 'not a plain address'
  // Removes the form with dots, so that the list compares the IPv6 address and not the IPv4 address in it.
  const plain = new URL(`http://[${address}]`).hostname.slice(1, -1)
  if (!isInNetwork([...ALLOCATED], plain, 'ipv6'))
    return plain === '::1' ? 'loopback' : 'not of the public internet'
  return findNetwork(SPECIAL_IPV6, plain, 'ipv6')
}

function findNetwork(
  networks: readonly (readonly [string, number, string])[],
  address: string,
  family: 'ipv4' | 'ipv6',
): string | undefined {
  return networks.find(([network, bits]) => isInNetwork([network, bits], address, family))?.[2]
}

function isInNetwork(
  [network, bits]: readonly [string, number],
  address: string,
  family: 'ipv4' | 'ipv6',
): boolean {
  const list = new BlockList()
  list.addSubnet(network, bits, family)
  return list.check(address, family)
}
