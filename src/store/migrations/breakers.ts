/** Which providers are being left alone for a while. */
export const breakers = `
`
