/** Who answered, where that was not the provider that was asked. */
export function listFallbacks(asked: string, answeredBy: readonly string[]): [string, string][] {
  const others = answeredBy.filter((id) => id !== asked)
  if (others.length === 0) return []
  const both = answeredBy.length > others.length ? `${asked} and ` : ''
  return [['answered', `by ${both}${others.join(' and ')}`]]
}
