/** Which addresses are of the public internet. Everything that is not known to be one is refused. */
import { BlockList, isIPv4, isIPv6 } from 'node:net'

/** IPv4, by what they are for (RFC 6890 and its registry, and what clouds use as their own). */
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

/** Of IPv6 only this much was ever given out; all else (mapped, NAT64, unique local, link-local, multicast) is not. */
const GIVEN_OUT = ['2000::', 3] as const
const SPECIAL_IPV6: readonly (readonly [address: string, bits: number, what: string])[] = [
  ['2001::', 23, 'reserved, such as Teredo'],
  ['2001:db8::', 32, 'documentation'],
  ['2002::', 16, '6to4'],
  ['2620:4f:8000::', 48, 'reserved'],
  ['3fff::', 20, 'documentation'],
]

/** Why an address is not of the public internet, in a word or two; undefined when it is. */
export function notPublic(address: string): string | undefined {
  if (isIPv4(address)) return findNetwork(SPECIAL_IPV4, address, 'ipv4')
  if (!isIPv6(address) || address.includes('%')) return 'not a plain address'
  // Without the form with dots: what it stands for is not what a list of IPv6 networks is asked.
  const plain = new URL(`http://[${address}]`).hostname.slice(1, -1)
  if (!holds([...GIVEN_OUT], plain, 'ipv6'))
    return plain === '::1' ? 'loopback' : 'not of the public internet'
  return findNetwork(SPECIAL_IPV6, plain, 'ipv6')
}

function findNetwork(
  networks: readonly (readonly [string, number, string])[],
  address: string,
  family: 'ipv4' | 'ipv6',
): string | undefined {
  return networks.find(([network, bits]) => holds([network, bits], address, family))?.[2]
}

function holds(
  [network, bits]: readonly [string, number],
  address: string,
  family: 'ipv4' | 'ipv6',
): boolean {
  const list = new BlockList()
  list.addSubnet(network, bits, family)
  return list.check(address, family)
}
